//! Writes objects, and counts the results.

use std::{collections::BTreeSet, fmt};

use kube::{
    Client, ResourceExt,
    api::{DeleteParams, Patch, PatchParams, PostParams},
};
use longboat_install::{
    Installation,
    kinds::{self, Kind},
};
use longboat_watch::has_code;
use serde_json::Value;

use super::{
    object::{self, MANAGER},
    survey,
    wait::Deadline,
};
use crate::printer;

/// Writes objects.
pub(super) struct Applier {
    client: Client,
    force: bool,
    deadline: Deadline,
    counts: Counts,
}

/// The counts of the results.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Counts {
    created: usize,
    changed: usize,
    removed: usize,
    unchanged: usize,
}

// === impl Applier ===

impl Applier {
    pub(super) fn new(client: Client, force: bool, deadline: Deadline) -> Self {
        Self { client, force, deadline, counts: Counts::default() }
    }

    /// Creates or updates an object. With `replaces`, replaces the content that another owner has written first.
    ///
    /// # Errors
    ///
    /// If the server refuses the object. The error has the server's message and, for conflicts, each field.
    pub(super) async fn write(&mut self, desired: &Value, replaces: bool) -> anyhow::Result<()> {
        if replaces {
            self.replace(desired).await?;
        }
        let title = object::title(desired);
        let api = object::api_of(&self.client, desired)?;
        // The answer to an apply does not say whether it changed anything, but the resourceVersion does.
        let before =
            object::read_live(&self.client, desired).await?.and_then(|found| found.resource_version());
        let mut params = PatchParams::apply(MANAGER);
        params.force = self.force;
        let after = loop {
            match api.patch(object::name(desired), &params, &Patch::Apply(desired)).await {
                Ok(after) => break after,
                // A busy server may need longer for a CRD of a megabyte than its own timeout.
                Err(error) if is_passing(&error) && !self.deadline.is_over() => {
                    self.deadline.sleep_interval().await;
                }
                Err(error) => return Err(conflict(&title, &error)),
            }
        };
        let action = match before {
            None => {
                self.counts.created += 1;
                "created"
            }
            Some(before) if after.resource_version().as_ref() != Some(&before) => {
                self.counts.changed += 1;
                "changed"
            }
            Some(_) => {
                self.counts.unchanged += 1;
                return Ok(());
            }
        };
        printer::line(&format!("{action} {title}"));
        Ok(())
    }

    /// Replaces the content of another owner's object completely. Merging would not work: a merge of two presets has no
    /// known meaning, and the server refuses a webhook with two addresses.
    async fn replace(&self, desired: &Value) -> anyhow::Result<()> {
        let title = object::title(desired);
        let refused = |error| object::refused("replace", &title, &error);
        let api = object::api_of(&self.client, desired)?;
        let params = PostParams { field_manager: Some(MANAGER.to_owned()), ..PostParams::default() };
        loop {
            let Some(mut found) = api.get_opt(object::name(desired)).await.map_err(refused)? else {
                return Ok(());
            };
            for part in ["spec", "webhooks"] {
                if let Some(content) = desired.get(part) {
                    found.data[part] = content.clone();
                }
            }
            match api.replace(object::name(desired), &params, &found).await {
                Ok(_) => return Ok(()),
                // A controller that runs writes its CA into the same object.
                Err(error) if (is_passing(&error) || has_code(&error, 409)) && !self.deadline.is_over() => {
                    self.deadline.sleep_interval().await;
                }
                Err(error) => return Err(refused(error)),
            }
        }
    }

    /// Removes objects that an earlier run with other values wrote and that this run no longer has. Definitions and configs
    /// stay, because they do not only belong to the installation.
    pub(super) async fn prune(&mut self, installation: &Installation) -> anyhow::Result<()> {
        let desired: BTreeSet<String> = installation.objects().map(object::title).collect();
        for kind in kinds::REMOVAL.iter().filter(|kind| is_pruned(kind)) {
            for stale in object::list(&self.client, kind, &object::installed()).await? {
                let title = object::named(kind.kind, stale.namespace().as_deref(), &stale.name_any());
                // The charts and the Kustomize base set the same label.
                if desired.contains(&title) || !survey::is_ours(&stale) {
                    continue;
                }
                let api = object::api(&self.client, kind, stale.namespace().as_deref());
                match api.delete(&stale.name_any(), &DeleteParams::default()).await {
                    Ok(_) => {
                        self.counts.removed += 1;
                        printer::line(&format!("removed {title}"));
                    }
                    Err(error) if has_code(&error, 404) => {}
                    Err(error) => return Err(object::refused("remove", &title, &error)),
                }
            }
        }
        Ok(())
    }

    pub(super) fn counts_so_far(&self) -> Counts {
        self.counts
    }
}

// === impl Counts ===

impl Counts {
    pub(super) fn is_unchanged(self) -> bool {
        self.created + self.changed + self.removed == 0
    }
}

impl fmt::Display for Counts {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { created, changed, removed, unchanged } = self;
        write!(f, "{created} created, {changed} changed, {removed} removed, {unchanged} unchanged")
    }
}

fn is_pruned(kind: &Kind) -> bool {
    !matches!(kind.kind, "CustomResourceDefinition" | "LLMInferenceServiceConfig" | "Namespace" | "ConfigMap")
}

/// Whether the same request may succeed in a moment.
fn is_passing(error: &kube::Error) -> bool {
    // The server is busy, what it passes requests on to starts, or its own time limit is over.
    matches!(error, kube::Error::Api(status) if [429, 503, 504].contains(&status.code))
}

fn conflict(title: &str, error: &kube::Error) -> anyhow::Error {
    let kube::Error::Api(status) = error else { return object::refused("write", title, error) };
    let causes = status.details.iter().flat_map(|details| &details.causes);
    let fields: Vec<String> = causes
        .filter(|cause| cause.reason == "FieldManagerConflict")
        .map(|cause| format!("\n  {}: {}", cause.field, cause.message))
        .collect();
    if fields.is_empty() {
        return object::refused("write", title, error);
    }
    anyhow::anyhow!(
        "cannot write {title}: other field managers own fields with other values{}\n  Use \
         --force-conflicts to take over these fields, or choose the same values.",
        fields.concat()
    )
}
