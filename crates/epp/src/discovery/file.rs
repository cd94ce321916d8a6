//! Endpoints from a file: the `file-discovery` plugin.

use std::{collections::BTreeMap, net::SocketAddr, path::PathBuf, sync::Arc, time::Duration};

use serde::Deserialize;
use tokio_util::sync::CancellationToken;

use crate::{core::Core, pool::EndpointSpec};

/// How often the file is read. The file is short and changes only by hand.
const INTERVAL: Duration = Duration::from_secs(1);

#[derive(Debug, Deserialize)]
struct Document {
    endpoints: Vec<Entry>,
}

#[derive(Debug, Deserialize)]
struct Entry {
    name: String,
    #[serde(default)]
    namespace: String,
    address: String,
    /// A port number as a string or as a number.
    port: String,
    #[serde(default)]
    labels: BTreeMap<String, String>,
}

/// Follows the file until shutdown. If the file cannot be read, this logs a warning and keeps the endpoints.
pub(crate) async fn follow(path: PathBuf, core: Arc<Core>, shutdown: CancellationToken) {
    let mut seen: Option<Result<String, String>> = None;
    loop {
        let text = tokio::fs::read_to_string(&path).await.map_err(|error| error.to_string());
        if seen.as_ref() != Some(&text) {
            match text.as_ref().map_err(Clone::clone).and_then(|text| parse(text)) {
                Ok(endpoints) => core.set_endpoints(endpoints),
                Err(error) => tracing::error!(path = %path.display(), error, "Cannot read the endpoints."),
            }
            // An error is remembered, too, so that it is logged once.
            seen = Some(text);
        }
        let Some(()) = shutdown.run_until_cancelled(tokio::time::sleep(INTERVAL)).await else { return };
    }
}

fn parse(text: &str) -> Result<Vec<EndpointSpec>, String> {
    let entries = serde_saphyr::from_str::<Document>(text)
        .map(|document| document.endpoints)
        .or_else(|error| serde_saphyr::from_str::<Vec<Entry>>(text).map_err(|_| error.to_string()))?;
    entries
        .into_iter()
        .map(|entry| {
            let invalid = |field, expected, found: &str| {
                format!("endpoint \"{}\": {field}: expected {expected}, found \"{found}\"", entry.name)
            };
            let ip = entry.address.parse();
            let ip = ip.map_err(|_| invalid("address", "an IP address", &entry.address))?;
            let port = entry.port.parse();
            let port = port.map_err(|_| invalid("port", "a number from 1 to 65535", &entry.port))?;
            Ok(EndpointSpec {
                namespace: if entry.namespace.is_empty() { "default".to_owned() } else { entry.namespace },
                name: entry.name,
                address: SocketAddr::new(ip, port),
                labels: entry.labels,
            })
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_discovery_file_names_endpoints_with_or_without_a_key() {
        let named = "endpoints:\n- {name: a, address: 127.0.0.1, port: 8000, labels: {x: y}}\n";
        let bare = "- {name: a, namespace: default, address: 127.0.0.1, port: '8000', labels: {x: y}}\n";
        assert_eq!(parse(named).unwrap(), parse(bare).unwrap());
        let error = parse("endpoints:\n- {name: a, address: nowhere, port: 1}\n").unwrap_err();
        assert_eq!(error, "endpoint \"a\": address: expected an IP address, found \"nowhere\"");
    }
}
