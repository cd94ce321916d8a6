//! Writes manifests to the local cluster.

use longboat_key::{Key, Name, Namespace};
use longboat_local::Local;
use longboat_manifest::Document;
use owo_colors::OwoColorize;

use crate::printer;

/// Writes manifests to a local cluster, with what stands in for missing objects. Returns the services among them.
pub(super) async fn write(local: &Local, documents: &[Document]) -> anyhow::Result<Vec<Key>> {
    let stood_in = local.stand_in(documents).await?;
    for text in &stood_in.notes {
        printer::note(&format!("{} {text}", "stand-in:".bold()));
    }
    let applied = local.apply(&stood_in.documents).await?;
    for object in &applied {
        for warning in &object.warnings {
            printer::note(&format!("{} {object}: {warning}", "warning:".yellow().bold()));
        }
    }
    let own = applied.iter().filter(|object| object.kind == "LLMInferenceService");
    Ok(own.map(|object| Key::new(Namespace(&object.namespace), Name(&object.name))).collect())
}
