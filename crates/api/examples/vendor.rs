//! Writes the CRDs of other projects into `deploy/crds`: `scripts/vendor-crds.sh` fetches them and runs this. Their schemas stay
//! as they are. Versions that we do not use go, and of each description the first sentence stays, for `kubectl explain`.

use std::path::Path;

use longboat_api::crd;
use serde_json::Value;

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../deploy/crds");
    for argument in std::env::args().skip(1) {
        let (file, source) = argument.split_once('=').ok_or("expected FILE=SOURCE")?;
        let mut document: Value = serde_saphyr::from_str(&std::fs::read_to_string(file)?)?;
        if let Some(versions) = document["spec"]["versions"].as_array_mut() {
            versions.retain(|version| version["storage"] == true);
        }
        if let Some(fields) = document.as_object_mut() {
            // What an old API server would have written there.
            fields.remove("status");
        }
        shorten(&mut document);
        let body = serde_saphyr::to_string(&document)?;
        let text =
            format!("# {source}, Apache-2.0. Written by `scripts/vendor-crds.sh`; do not edit.\n{body}");
        std::fs::write(folder.join(crd::file_name(&document)), text)?;
    }
    Ok(())
}

fn shorten(value: &mut Value) {
    match value {
        Value::Object(fields) => {
            if let Some(Value::String(text)) = fields.get_mut("description") {
                *text = first_sentence(text);
            }
            fields.values_mut().for_each(shorten);
        }
        Value::Array(items) => items.iter_mut().for_each(shorten),
        _ => {}
    }
}

fn first_sentence(text: &str) -> String {
    let paragraph = text.split("\n\n").next().unwrap_or_default();
    let words = paragraph.split_whitespace().collect::<Vec<_>>().join(" ");
    match words.find(". ") {
        Some(end) => words[..=end].to_owned(),
        None => words,
    }
}
