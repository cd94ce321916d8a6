//! Writes manifests to the local cluster.

use kube::{Api, Client, api::ListParams};
use longboat_api::v1alpha2::LLMInferenceService;
use longboat_controller::reader;
use longboat_key::{Key, Name, Namespace};
use longboat_local::Local;
use longboat_manifest::Document;
use owo_colors::OwoColorize;

use crate::printer;

/// Writes manifests to a local cluster, with what stands in for missing objects. Returns the services among them.
pub(super) async fn write(local: &Local, documents: &[Document]) -> anyhow::Result<Vec<Key>> {
    let stood_in = local.stand_in(documents).await?;
    for text in &stood_in.notes {
        printer::labelled("stand-in:", text);
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

/// Returns all services of a local cluster; none if it does not answer.
pub(super) async fn services(client: &Client) -> Vec<Key> {
    let all = Api::<LLMInferenceService>::all(client.clone());
    let found = reader::list(&all, &ListParams::default()).await.ok().flatten().unwrap_or_default();
    found.iter().map(Key::of).collect()
}
