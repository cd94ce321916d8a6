//! Values such as `25%` or `1`. Kubernetes: apimachinery/pkg/util/intstr.

use k8s_openapi::apimachinery::pkg::util::intstr::IntOrString;

/// Resolves a value to a number. A percentage refers to `total`, and is rounded up or down.
pub(super) fn resolve(value: Option<&IntOrString>, default: &str, total: i32, round_up: bool) -> i32 {
    let text = match value {
        Some(IntOrString::Int(number)) => return *number,
        Some(IntOrString::String(text)) => text.as_str(),
        None => default,
    };
    match text.strip_suffix('%').map(str::parse::<i64>) {
        Some(Ok(percent)) => {
            let hundredths = percent * i64::from(total);
            let rounded = if round_up { (hundredths + 99) / 100 } else { hundredths / 100 };
            i32::try_from(rounded).unwrap_or(i32::MAX)
        }
        _ => text.parse().unwrap_or(0),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn percentages_are_rounded_as_asked() {
        assert_eq!(resolve(None, "25%", 3, true), 1);
        assert_eq!(resolve(None, "25%", 3, false), 0);
        assert_eq!(resolve(Some(&IntOrString::Int(2)), "25%", 3, false), 2);
        assert_eq!(resolve(Some(&IntOrString::String("100%".into())), "25%", 3, false), 3);
    }
}
