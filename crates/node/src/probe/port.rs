//! The port of a probe or of a hook.

use k8s_openapi::api::core::v1::Container;
use k8s_openapi::apimachinery::pkg::util::intstr::IntOrString;

/// Returns a port by its number, or by its name in the container.
pub(crate) fn port_number(port: &IntOrString, container: &Container) -> Result<u16, String> {
    let number = match port {
        IntOrString::Int(number) => Some(*number),
        IntOrString::String(name) => container
            .ports
            .iter()
            .flatten()
            .find(|candidate| candidate.name.as_deref() == Some(name))
            .map(|candidate| candidate.container_port)
            .or_else(|| name.parse().ok()),
    };
    number.and_then(|number| u16::try_from(number).ok()).filter(|number| *number > 0).ok_or_else(
        || match port {
            IntOrString::Int(number) => format!("invalid port number: {number}"),
            IntOrString::String(name) => format!("container \"{}\" has no port \"{name}\"", container.name),
        },
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_port_that_does_not_exist_is_named() {
        let container = Container { name: "main".into(), ..Container::default() };
        for (port, expected) in [
            (IntOrString::Int(0), "invalid port number: 0"),
            (IntOrString::String("http".into()), "container \"main\" has no port \"http\""),
        ] {
            assert_eq!(port_number(&port, &container).unwrap_err(), expected);
        }
    }
}
