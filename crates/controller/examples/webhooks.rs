//! Writes the objects that have an API server call the webhooks: `cargo run -p longboat-controller --example webhooks
//! [FOLDER]`, by default `deploy/webhooks`.

use std::path::PathBuf;

use longboat_controller::webhook::manifests;

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let folder = std::env::args_os().nth(1).map_or_else(
        || PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("../../deploy/webhooks"),
        PathBuf::from,
    );
    std::fs::create_dir_all(&folder)?;
    for (name, text) in manifests()? {
        std::fs::write(folder.join(name), text)?;
    }
    Ok(())
}
