//! Removes an installation.

use std::{collections::BTreeSet, time::Duration};

use anyhow::{anyhow, bail};
use kube::{
    Client, ResourceExt,
    api::{DeleteParams, ListParams},
};
use longboat_api::{
    labels::PART_OF_SELECTOR,
    names::{CONTROLLER_LEASE, WEBHOOK_CA},
};
use longboat_install::{
    kinds::{self, Kind},
    names::CONTROLLER,
};
use longboat_plan::counted;
use longboat_watch::has_code;

use super::{
    object::{self, PartialObject},
    survey,
    wait::Deadline,
};
use crate::{cli::Services, printer};

const SERVICES: Kind =
    Kind::new("serving.kserve.io/v1alpha2", "LLMInferenceService", "llminferenceservices", true);
const PODS: Kind = Kind::new("v1", "Pod", "pods", true);
const CONFIGS: &str = "LLMInferenceServiceConfig";
const DEFINITIONS: &str = "CustomResourceDefinition";
const CONFIG_DEFINITION: &str = "llminferenceserviceconfigs.serving.kserve.io";
/// The annotation with which Helm marks its objects.
const HELM: &str = "meta.helm.sh/release-name";

/// Options of an uninstallation.
#[derive(Debug)]
pub(crate) struct Removal {
    /// What to do with services.
    pub(crate) services: Services,
    /// Whether to remove the definitions, too.
    pub(crate) definitions: bool,
    /// Whether to only print what would be removed.
    pub(crate) dry_run: bool,
    /// The time limit.
    pub(crate) limit: Duration,
}

/// Removes the objects with the label of an installation. The order makes sure that no finalizer stays without its
/// controller.
pub(crate) async fn uninstall(client: Client, removal: &Removal) -> anyhow::Result<()> {
    let remover = Remover { client, deadline: Deadline::after(removal.limit), dry_run: removal.dry_run };
    let keeps = removal.services == Services::Keep;
    if keeps && removal.definitions {
        bail!("--crds removes the CRDs with all services, so it cannot be used with --services=keep");
    }
    let mut found = Vec::new();
    for kind in &kinds::REMOVAL {
        let stays = match kind.kind {
            // The namespace may have other content.
            "Namespace" => true,
            DEFINITIONS => !removal.definitions,
            // The remaining services use these objects, whichever controller runs them.
            CONFIGS | "ConfigMap" => keeps,
            _ => false,
        };
        if !stays {
            found.push((kind, object::list(&remover.client, kind, &object::installed()).await?));
        }
    }
    // With their definition go all configs, also those of users. So the controller has to remove their finalizers first.
    let is_of_configs = |object: &PartialObject| object.name_any() == CONFIG_DEFINITION;
    if found.iter().any(|(kind, objects)| kind.kind == DEFINITIONS && objects.iter().any(is_of_configs)) {
        for (kind, objects) in found.iter_mut().filter(|(kind, _)| kind.kind == CONFIGS) {
            *objects = object::list(&remover.client, kind, &ListParams::default()).await?;
        }
    }
    for (kind, objects) in &found {
        // What `longboat install` took over from the release of another product still has the annotation. It is ours: that release
        // would remove it with everything else that the two have in common.
        let by_helm =
            |object: &&PartialObject| object.annotations().contains_key(HELM) && !survey::is_ours(*object);
        if let Some(helm) = objects.iter().find(by_helm) {
            bail!(
                "Helm installed {} as part of release `{}`: remove it with `helm uninstall`",
                object::named(kind.kind, helm.namespace().as_deref(), &helm.name_any()),
                helm.annotations()[HELM]
            );
        }
    }
    remover.services(removal.services).await?;
    let mut count = 0;
    for (kind, objects) in &found {
        for object in objects {
            remover.remove(kind, object).await?;
            count += 1;
        }
        // Objects with finalizers can only be deleted while the controller runs.
        if matches!(kind.kind, CONFIGS | DEFINITIONS) {
            remover.wait_until_gone(kind, objects).await?;
        }
        if kind.kind == "Deployment" {
            remover.wait_until_stopped(objects).await?;
        }
    }
    // These come last: a controller that still has its rights would create them again.
    for (_, objects) in found.iter().filter(|(kind, _)| kind.kind == "Deployment") {
        count += remover.leftovers(objects).await?;
    }
    match (count, removal.dry_run) {
        (0, _) => printer::note("This cluster has no objects of an installation."),
        (_, true) => printer::note("This was a dry run; nothing was removed."),
        (_, false) if keeps => {
            printer::note("Presets, settings, CRDs and namespaces stay for the next controller.");
        }
        (_, false) if removal.definitions => printer::note("Namespaces stay."),
        (_, false) => printer::note("CRDs and namespaces stay; --crds removes the CRDs too."),
    }
    Ok(())
}

/// How many times to try a removal that a webhook denies, twice a second. Another webhook may deny it for good, so this is less than the
/// whole time limit.
const ATTEMPTS: u32 = 40;

struct Remover {
    client: Client,
    deadline: Deadline,
    dry_run: bool,
}

// === impl Remover ===

impl Remover {
    /// Handles the services before anything else is removed.
    async fn services(&self, services: Services) -> anyhow::Result<()> {
        let found = object::list(&self.client, &SERVICES, &ListParams::default()).await?;
        if found.is_empty() {
            return Ok(());
        }
        match services {
            Services::Keep => {
                printer::note(&format!(
                    "still in the cluster: {}; without a controller, nothing of these can be changed or deleted",
                    counted(found.len(), "LLMInferenceService")
                ));
                Ok(())
            }
            Services::Refuse => {
                let some: Vec<String> = found
                    .iter()
                    .take(5)
                    .map(|service| {
                        format!("{}/{}", service.namespace().unwrap_or_default(), service.name_any())
                    })
                    .collect();
                let more = if found.len() > some.len() { ", …" } else { "" };
                bail!(
                    "the cluster has {} ({}{more}), and without the controller no service can be deleted\n  Use --services=delete to delete them first, or --services=keep to keep \
                     them for the next controller.",
                    counted(found.len(), "LLMInferenceService"),
                    some.join(", ")
                )
            }
            Services::Delete => {
                for service in &found {
                    self.remove(&SERVICES, service).await?;
                }
                self.wait_until_gone(&SERVICES, &found).await
            }
        }
    }

    async fn remove(&self, kind: &Kind, found: &PartialObject) -> anyhow::Result<()> {
        let (namespace, name) = (found.namespace(), found.name_any());
        let title = object::named(kind.kind, namespace.as_deref(), &name);
        if self.dry_run {
            printer::line(&format!("would remove {title}"));
            return Ok(());
        }
        let api = object::api(&self.client, kind, namespace.as_deref());
        for attempt in 1.. {
            match api.delete(&name, &DeleteParams::background()).await {
                Ok(_) => {
                    printer::line(&format!("removed {title}"));
                    break;
                }
                Err(error) if has_code(&error, 404) => break,
                // An API server still calls a webhook for a moment after its configuration was removed.
                Err(error) if attempt < ATTEMPTS && object::is_denied_by_a_webhook(&error) => {
                    self.deadline.sleep_interval().await;
                }
                Err(error) => return Err(object::refused("remove", &title, &error)),
            }
        }
        Ok(())
    }

    /// Waits until these objects are gone.
    async fn wait_until_gone(&self, kind: &Kind, objects: &[PartialObject]) -> anyhow::Result<()> {
        if self.dry_run {
            return Ok(());
        }
        for found in objects {
            let (namespace, name) = (found.namespace(), found.name_any());
            let title = object::named(kind.kind, namespace.as_deref(), &name);
            let api = object::api(&self.client, kind, namespace.as_deref());
            loop {
                let left = api.get_metadata_opt(&name).await;
                let left = left.map_err(|error| object::refused("read", &title, &error))?;
                // A new object of the same name is another one.
                let Some(left) = left.filter(|left| left.uid() == found.uid()) else { break };
                let blocked = || {
                    anyhow!(
                        "{title} is not deleted, because finalizers block the deletion: {}\n  The \
                         controller removes these finalizers: check that it runs, and run this command \
                         again.",
                        left.finalizers().join(", ")
                    )
                };
                self.deadline.sleep_or(blocked).await?;
            }
        }
        Ok(())
    }

    /// Waits until no controller runs any more.
    async fn wait_until_stopped(&self, deployments: &[PartialObject]) -> anyhow::Result<()> {
        if self.dry_run {
            return Ok(());
        }
        for namespace in deployments.iter().filter_map(ResourceExt::namespace) {
            let pods = object::api(&self.client, &PODS, Some(&namespace));
            let list = ListParams::default().labels(&format!("control-plane={CONTROLLER}"));
            loop {
                let left = pods.list_metadata(&list).await;
                let left = left.map_err(|error| object::refused("list", "pods of the controller", &error))?;
                let Some(pod) = left.items.first() else { break };
                let name = pod.name_any();
                let runs = || {
                    anyhow!(
                        "pod {namespace}/{name} does not terminate: run `kubectl describe pod` to see why"
                    )
                };
                self.deadline.sleep_or(runs).await?;
            }
        }
        Ok(())
    }

    /// Removes what the controllers created for themselves: their CA, and the Lease of their leader election. Returns the
    /// number of removed objects.
    async fn leftovers(&self, deployments: &[PartialObject]) -> anyhow::Result<usize> {
        // The CA also shows where a controller ran before the installation was moved.
        let [(secrets, ca), _] = &LEFTOVERS;
        let params = ListParams::default().labels(PART_OF_SELECTOR).fields(&format!("metadata.name={ca}"));
        let found = object::list(&self.client, secrets, &params).await?;
        let namespaces: BTreeSet<String> =
            deployments.iter().chain(&found).filter_map(ResourceExt::namespace).collect();
        let mut count = 0;
        for namespace in namespaces {
            for (kind, name) in &LEFTOVERS {
                let found = object::api(&self.client, kind, Some(&namespace)).get_metadata_opt(name).await;
                let found = found.map_err(|error| {
                    object::refused("read", &object::named(kind.kind, Some(&namespace), name), &error)
                })?;
                if let Some(found) = found {
                    self.remove(kind, &found).await?;
                    count += 1;
                }
            }
        }
        Ok(count)
    }
}

/// The objects that the controllers create for themselves in their namespace.
const LEFTOVERS: [(Kind, &str); 2] = [
    (Kind::new("v1", "Secret", "secrets", true), WEBHOOK_CA),
    (Kind::new("coordination.k8s.io/v1", "Lease", "leases", true), CONTROLLER_LEASE),
];
