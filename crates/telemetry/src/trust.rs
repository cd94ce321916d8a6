//! TLS to a collector: its trusted authorities, and the client certificate, from the variables of OpenTelemetry's
//! specification.

use opentelemetry_otlp::tonic_types::transport::{Certificate, ClientTlsConfig, Identity};

use crate::error::TracesError;

/// Returns the TLS configuration. It trusts the system's authorities, or the authority in a variable instead, and has a
/// client certificate if one is configured.
///
/// # Errors
///
/// If a file that a variable names cannot be read, or if only one of certificate and key is set.
pub(crate) fn client(variable: impl Fn(&str) -> Option<String>) -> Result<ClientTlsConfig, TracesError> {
    // The variables for traces take precedence over those for all signals.
    let named = |what: &str| {
        let names = [format!("OTEL_EXPORTER_OTLP_TRACES_{what}"), format!("OTEL_EXPORTER_OTLP_{what}")];
        // With its name, which messages need.
        names.into_iter().find_map(|name| Some((variable(&name)?, name)))
    };
    let read = |(path, variable): (String, String)| {
        std::fs::read(&path).map_err(|source| TracesError::Unreadable { variable, path, source })
    };
    let config = match named("CERTIFICATE").map(read).transpose()? {
        Some(authority) => ClientTlsConfig::new().ca_certificate(Certificate::from_pem(authority)),
        None => ClientTlsConfig::new().with_native_roots(),
    };
    match (named("CLIENT_CERTIFICATE"), named("CLIENT_KEY")) {
        (Some(certificate), Some(key)) => {
            Ok(config.identity(Identity::from_pem(read(certificate)?, read(key)?)))
        }
        (None, None) => Ok(config),
        (Some((_, present)), None) => {
            let missing = present.replace("CLIENT_CERTIFICATE", "CLIENT_KEY");
            Err(TracesError::Half { present, missing })
        }
        (None, Some((_, present))) => {
            let missing = present.replace("CLIENT_KEY", "CLIENT_CERTIFICATE");
            Err(TracesError::Half { present, missing })
        }
    }
}

#[cfg(test)]
mod tests {
    use super::client;

    fn error(set: &[(&str, &str)]) -> String {
        let variable =
            |name: &str| set.iter().find(|(known, _)| *known == name).map(|(_, value)| (*value).to_owned());
        client(variable).unwrap_err().to_string()
    }

    #[test]
    fn a_file_that_is_not_there_and_half_a_pair_are_named_by_their_variables() {
        assert_eq!(
            error(&[("OTEL_EXPORTER_OTLP_CERTIFICATE", "/nowhere/ca.pem")]),
            "cannot read /nowhere/ca.pem, which OTEL_EXPORTER_OTLP_CERTIFICATE names: No such file or directory (os error 2)"
        );
        assert_eq!(
            error(&[
                ("OTEL_EXPORTER_OTLP_CERTIFICATE", "/nowhere/ca.pem"),
                ("OTEL_EXPORTER_OTLP_TRACES_CERTIFICATE", "/nowhere/traces.pem"),
            ]),
            "cannot read /nowhere/traces.pem, which OTEL_EXPORTER_OTLP_TRACES_CERTIFICATE names: No such file or directory (os error 2)"
        );
        assert_eq!(
            error(&[("OTEL_EXPORTER_OTLP_CLIENT_KEY", "/nowhere/key.pem")]),
            "OTEL_EXPORTER_OTLP_CLIENT_KEY is set, so OTEL_EXPORTER_OTLP_CLIENT_CERTIFICATE must also be set"
        );
    }
}
