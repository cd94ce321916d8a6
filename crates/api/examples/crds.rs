//! Writes the CRDs of our own kinds, by default into `deploy/crds`, and the schema with which merged specs are validated: `cargo
//! run -p longboat-api --example crds [FOLDER]`.

use std::path::PathBuf;

use longboat_api::crd::{self, WebhookTarget};

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let folder = std::env::args_os()
        .nth(1)
        .map_or_else(|| PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("../../deploy/crds"), PathBuf::from);
    std::fs::create_dir_all(&folder)?;
    for document in &crd::own_for(&WebhookTarget::default()) {
        std::fs::write(folder.join(crd::file_name(document)), crd::to_yaml(document)?)?;
    }
    let schema = concat!(env!("CARGO_MANIFEST_DIR"), "/generated/service-spec.json");
    std::fs::write(schema, crd::service_spec().to_string())?;
    Ok(())
}
