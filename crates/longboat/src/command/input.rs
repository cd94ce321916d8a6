//! The input of `render`, `explain` and `diff`: manifests, or a cluster, or manifests on top of a cluster.

use std::path::{Path, PathBuf};

use anyhow::bail;
use kube::Client;
use longboat_api::v1alpha2::LLMInferenceService;
use longboat_compose::PresetNames;
use longboat_controller::{Args as ControllerArgs, view};
use longboat_key::{Key, Namespace, nearest};
use longboat_manifest::{Document, ParseOutput};
use longboat_offline::{
    Presets, Settings, complete_platform,
    diff::{self, Difference},
    refusal,
    render::{self, Note, Severity},
    scene::{ObservedCluster, Scene},
    validate::{
        Finding, INFERENCE_SERVICE, NOT_CHECKED, PICKER_CONFIG, Severity as Gravity, picker_findings,
        shortened, validate,
    },
};
use owo_colors::OwoColorize;
use tokio::runtime::Handle;

use super::cluster;
use crate::{
    cli::{Api, ClusterArgs, EnvironmentArgs},
    printer,
};

/// Reads the given manifests in order.
pub(crate) fn documents(inputs: &[PathBuf]) -> anyhow::Result<Vec<Document>> {
    if inputs.is_empty() {
        bail!("no manifest given: pass a file, a folder, or `-` for standard input");
    }
    read(inputs)
}

/// Reads manifests. Says which kustomizations beside them are not applied.
fn read(inputs: &[PathBuf]) -> anyhow::Result<Vec<Document>> {
    let mut reading = longboat_manifest::read_all(inputs);
    for kustomization in std::mem::take(&mut reading.unapplied) {
        printer::note(&super::finding::coloured(&Finding::unapplied(&kustomization)));
    }
    Ok(reading.into_result()?)
}

/// Returns the error that the manifests contain no service, with the kinds that they do contain.
pub(crate) fn no_service(documents: &[Document]) -> anyhow::Error {
    const SERVICE: &str = "LLMInferenceService";
    let mut kinds: Vec<&str> = documents.iter().map(Document::kind).filter(|kind| !kind.is_empty()).collect();
    kinds.sort_unstable();
    kinds.dedup();
    if kinds.is_empty() {
        return anyhow::anyhow!("the manifests contain no {SERVICE}: there is no object in them");
    }
    if kinds.contains(&"InferenceService") {
        return anyhow::anyhow!(
            "the manifests contain no {SERVICE}, only {}: {INFERENCE_SERVICE}",
            kinds.join(", ")
        );
    }
    let meant = kinds.iter().find(|kind| **kind != SERVICE && nearest([SERVICE], kind).is_some());
    let hint = match meant {
        Some(kind) => format!(": did you mean `{SERVICE}` instead of `{kind}`?"),
        None => String::new(),
    };
    anyhow::anyhow!("the manifests contain no {SERVICE}, only {}{hint}", kinds.join(", "))
}

/// Refuses manifests in which nothing can be compared.
pub(crate) fn has_own_kinds(documents: &[Document]) -> anyhow::Result<()> {
    let ours = ["LLMInferenceService", "LLMInferenceServiceConfig"];
    if documents.iter().any(|document| ours.contains(&document.kind())) {
        Ok(())
    } else {
        Err(no_service(documents))
    }
}

/// Returns the settings with which manifests are read.
pub(crate) fn settings(args: &EnvironmentArgs) -> anyhow::Result<Settings> {
    let mut settings = Settings {
        namespace: args.namespace.clone().unwrap_or_else(|| Namespace("default").to_shared()),
        system_namespace: args.system_namespace.clone(),
        preset_names: PresetNames { prefix: args.preset_prefix.clone(), versioned: true },
        presets: presets(args.platform.presets.as_deref())?,
        platform: platform(args.platform.platform.as_deref())?,
        ..Settings::default()
    };
    for api in &args.without {
        match api {
            Api::Gateway => settings.capabilities.gateway_api = false,
            Api::Inferencepool => settings.capabilities.inference_pool = false,
            Api::InferencepoolX => settings.capabilities.inference_pool_x = false,
        }
    }
    Ok(settings)
}

/// Returns the presets for the value of `--presets`.
pub(crate) fn presets(given: Option<&Path>) -> anyhow::Result<Presets> {
    Ok(match given {
        None => Presets::BuiltIn,
        Some(path) if path.as_os_str() == "none" => Presets::None,
        Some(path) => Presets::Given(longboat_manifest::read(&[path.to_owned()])?),
    })
}

/// Returns the platform's ConfigMap for the value of `--platform`.
pub(crate) fn platform(file: Option<&Path>) -> anyhow::Result<Option<Document>> {
    let Some(file) = file else { return Ok(None) };
    let found = longboat_manifest::read(&[file.to_owned()])?;
    let is_platform = |document: &Document| {
        document.kind() == "ConfigMap" && document.name() == longboat_api::names::PLATFORM_CONFIG_MAP
    };
    let Some(mut document) = found.into_iter().find(is_platform) else {
        bail!("file `{}` has no ConfigMap `{}`", file.display(), longboat_api::names::PLATFORM_CONFIG_MAP);
    };
    if let Some(key) = complete_platform(&mut document)? {
        printer::note(&format!(
            "{} file `{}` has no key `{key}`, without which a controller accepts no settings; that of a new installation is used",
            "note:".bold(),
            file.display()
        ));
    }
    Ok(Some(document))
}

/// Returns what a cluster's controller sees in these namespaces.
pub(crate) async fn observe(
    cluster: &ClusterArgs,
    settings: &Settings,
    namespaces: Vec<Namespace>,
) -> anyhow::Result<ObservedCluster> {
    let client = cluster::connect(cluster).await?.client;
    let (observed, hidden) = observe_with(client, settings, namespaces).await?;
    for sentence in &hidden {
        printer::labelled("note:", sentence);
    }
    Ok(observed)
}

/// Like `observe`, for a connected cluster. Also returns what could not be read for lack of permissions.
pub(crate) async fn observe_with(
    client: Client,
    settings: &Settings,
    namespaces: Vec<Namespace>,
) -> anyhow::Result<(ObservedCluster, Vec<String>)> {
    let args = ControllerArgs {
        system_namespace: settings.system_namespace.clone(),
        preset_prefix: settings.preset_names.prefix.clone(),
        namespaces,
        ..ControllerArgs::default()
    };
    let seen = view(args, client).await?;
    if let Some(error) = seen.platform_error {
        return Err(error.into());
    }
    let observed = ObservedCluster {
        services: seen.services,
        configs: seen.configs,
        snapshot: seen.snapshot,
        preset_names: seen.preset_names,
    };
    Ok((observed, seen.hidden))
}

/// Returns the namespaces of manifests.
pub(crate) fn namespaces(documents: &[Document], settings: &Settings) -> Vec<Namespace> {
    let mut all: Vec<Namespace> = documents
        .iter()
        .map(|document| match document.namespace() {
            "" => settings.namespace.clone(),
            namespace => Namespace(namespace).to_shared(),
        })
        .collect();
    all.sort();
    all.dedup();
    all
}

/// Reads the given manifests, if a local cluster would accept all of them, the controller could work with them, and the pickers
/// would start. A running cluster may know kinds that the manifests do not define.
///
/// # Errors
///
/// If a manifest cannot be read or used. The error has the problems of each, after `consequence`.
pub(crate) fn accepted_documents(
    inputs: &[PathBuf],
    is_running: bool,
    consequence: &str,
) -> anyhow::Result<Vec<Document>> {
    let documents = read(inputs)?;
    let reading = ParseOutput { documents: documents.clone(), ..ParseOutput::default() };
    let report = validate(reading, &Settings::default());
    // This machine has no other picker than this build's, whatever the image.
    let is_error = |finding: &&Finding| {
        finding.severity == Gravity::Error
            || finding.reason == PICKER_CONFIG
            || finding.reason == NOT_CHECKED && !is_running
    };
    let errors = report.findings.iter().filter(is_error);
    let mut text = String::new();
    for finding in errors {
        let mut finding = finding.clone();
        if let (NOT_CHECKED, Some(object)) = (finding.reason.as_str(), &finding.object) {
            let (kind, version) = (&object.kind, &object.api_version);
            finding.message = format!("the local API server does not serve kind `{kind}` in `{version}`");
        }
        let hint = finding.hint.as_ref().map(|hint| format!(" ({})", shortened(hint))).unwrap_or_default();
        text = format!("{text}\n  {}{hint}", finding.sentence());
    }
    if text.is_empty() {
        return Ok(documents);
    }
    bail!("these manifests have errors{consequence}:{text}")
}

/// Prints what an API server, the webhooks and the pickers would say about the manifests of a scene. Returns whether none of
/// them would refuse anything.
pub(crate) fn is_accepted(scene: &Scene) -> bool {
    let pickers = picker_findings(scene);
    let all = || scene.findings.iter().chain(&pickers);
    for finding in all().filter(|finding| finding.severity != Gravity::Note) {
        printer::note(&super::finding::coloured(finding));
    }
    all().all(|finding| finding.severity != Gravity::Error)
}

/// Prints why an API server would refuse children of a service. Returns whether it would accept all. A service that cannot be
/// planned has no children.
pub(crate) fn is_writable(scene: &Scene, service: &LLMInferenceService) -> bool {
    let Ok(planned) = scene.plan(service) else { return true };
    let found = refusal::findings(scene, service, &planned);
    for finding in &found {
        printer::note(&super::finding::coloured(finding));
    }
    found.is_empty()
}

/// Prints what is probably not meant in a service. What cannot be planned is reported otherwise.
pub(crate) fn print_warnings(scene: &Scene, service: &LLMInferenceService) {
    if let Ok(planned) = scene.plan(service) {
        print_notes(&Key::of(service), &render::warnings(scene, service, &planned));
    }
}

/// Returns the error that manifests have errors, which were already printed.
pub(crate) fn refused() -> anyhow::Error {
    anyhow::anyhow!("some of these manifests have errors")
}

/// Returns the scene of manifests on top of a cluster.
pub(crate) fn on_top(
    observed: ObservedCluster,
    documents: &[Document],
    settings: &Settings,
) -> anyhow::Result<Scene> {
    let mut scene = Scene::observed(observed)?;
    scene.overlay(documents, settings)?;
    Ok(scene)
}

/// What manifests would change in a cluster.
pub(crate) struct Changes {
    /// The differences, service by service.
    pub(crate) differences: Vec<Difference>,
    /// The differences as text, with colours.
    pub(crate) text: String,
    /// What a cluster would say about the manifests, errors and warnings.
    pub(crate) findings: Vec<String>,
    /// Why services cannot be compared.
    pub(crate) failed: Vec<anyhow::Error>,
    /// Whether the cluster would refuse a manifest.
    pub(crate) has_errors: bool,
}

/// Returns what manifests would change in a cluster. Works on a blocking thread, because it reads the cluster and then computes for
/// a while.
pub(crate) async fn changes(
    client: Client,
    settings: Settings,
    documents: Vec<Document>,
) -> anyhow::Result<Changes> {
    let handle = Handle::current();
    let work = move || {
        let namespaces = namespaces(&documents, &settings);
        let (observed, _) = handle.block_on(observe_with(client, &settings, namespaces))?;
        let before = Scene::observed(observed.clone())?;
        let after = on_top(observed, &documents, &settings)?;
        let (differences, failed) = diff::diff(&before, &after, true);
        let findings = after.findings.iter().filter(|finding| finding.severity != Gravity::Note);
        Ok(Changes {
            text: diff::to_text(&differences),
            differences,
            findings: findings.map(Finding::sentence).collect(),
            failed: failed.into_iter().map(anyhow::Error::new).collect(),
            has_errors: after.has_errors(),
        })
    };
    tokio::task::spawn_blocking(work).await?
}

/// Prints the notes about a service.
pub(crate) fn print_notes(service: &Key, notes: &[Note]) {
    for note in notes {
        let word = match note.severity {
            Severity::Problem => "not rendered:".red().bold().to_string(),
            Severity::Refused => "refused:".red().bold().to_string(),
            Severity::Warning => "warning:".yellow().bold().to_string(),
            Severity::Assumed => "assuming:".dimmed().to_string(),
        };
        printer::note(&format!("{word} {service}: {}", note.message));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn without_a_service_the_kinds_are_named_and_what_may_be_meant() {
        let error = |kind: &str| {
            let text =
                format!("apiVersion: serving.kserve.io/v1beta1\nkind: {kind}\nmetadata: {{name: a}}\n");
            no_service(&longboat_manifest::parse("a.yaml", &text).unwrap()).to_string()
        };
        assert!(error("InferenceService").contains("Longboat does not run InferenceService"));
        assert!(
            error("LLMInferenceServce")
                .ends_with("did you mean `LLMInferenceService` instead of `LLMInferenceServce`?")
        );
        assert!(error("ConfigMap").ends_with("only ConfigMap"));
    }
}
