//! Validates manifests like an API server, the webhooks and the controller.

mod absent;
mod advice;
mod attachment;
mod base_refs;
mod claims;
mod composed;
mod configs;
mod contents;
mod gateway_refs;
mod gateways;
mod keda;
mod layers;
mod models;
mod own_routes;
pub(crate) mod picker;
mod role_flags;
mod scale_target;
#[cfg(test)]
mod tests;

use std::collections::{BTreeSet, HashMap};

use longboat_key::{Key, Namespace};
use longboat_manifest::{Document, ParseOutput, parallel};

pub use crate::finding::{Finding, INFERENCE_SERVICE, NOT_CHECKED, ObjectName, Severity, Source, shortened};
pub use picker::{PICKER_CONFIG, picker_findings};

use crate::{
    Settings,
    scene::{PlannedService, PlanningError, Scene, SceneError, Subject, settings_among},
    stored::{Cluster, StoredManifest},
};
use absent::ManifestObjects;
use attachment::ManifestGateways;
use claims::SingleNodeClaims;
use layers::{Layers, key_of};

/// The result of a validation.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Report {
    /// The findings, in the order of the files.
    pub findings: Vec<Finding>,
    /// The objects that were checked, in the order of the files, and whether they have no errors.
    pub checked: Vec<(ObjectName, bool)>,
}

// === impl Report ===

impl Report {
    /// The number of findings with this severity.
    pub fn count(&self, severity: Severity) -> usize {
        self.findings.iter().filter(|finding| finding.severity == severity).count()
    }

    /// Notes that an object that was checked has errors.
    fn refuse(&mut self, object: &ObjectName) {
        if let Some((_, is_sound)) = self.checked.iter_mut().find(|(checked, _)| checked == object) {
            *is_sound = false;
        }
    }

    /// Whether there are no errors.
    pub fn is_clean(&self) -> bool {
        self.count(Severity::Error) == 0
    }
}

/// Validates manifests: each object on its own, all of them together, and services with their layers.
pub fn validate(reading: ParseOutput, settings: &Settings) -> Report {
    let ParseOutput { documents, problems, unapplied } = reading;
    let order: HashMap<String, usize> = {
        let sources = documents.iter().map(|document| document.source.to_string());
        let broken = problems.iter().filter_map(|problem| problem.place().0);
        let mut order = HashMap::new();
        for source in sources.chain(broken).chain(unapplied.iter().map(|one| one.file.clone())) {
            let next = order.len();
            order.entry(source).or_insert(next);
        }
        order
    };
    let mut report = Report::default();
    report.findings.extend(problems.iter().map(Finding::unreadable));
    report.findings.extend(unapplied.iter().map(Finding::unapplied));
    all(documents, settings, &mut report);
    report.findings.sort_by_key(|finding| {
        let file = order.get(&finding.file).copied().unwrap_or(usize::MAX);
        (file, finding.line, finding.column, finding.severity)
    });
    report
}

fn all(documents: Vec<Document>, settings: &Settings, report: &mut Report) {
    let cluster = Cluster::of(&documents, settings, settings_among(&documents, settings));
    let mut sound = Vec::with_capacity(documents.len());
    let mut broken = BTreeSet::new();
    let mut given = ManifestObjects::default();
    let judged = cluster.judge_all(&documents);
    for (document, judged) in documents.into_iter().zip(judged) {
        report.findings.extend(judged.findings);
        // An object of an unknown kind is neither valid nor invalid. Whether its kind has namespaces is not known, either.
        let Some(name) = judged.checked else {
            let namespaces = judged.stored.iter().map(|stored| stored.namespace.as_deref());
            let own = Namespace(document.namespace());
            namespaces.chain([own]).for_each(|namespace| given.add(&ObjectName::of(&document, namespace)));
            continue;
        };
        given.add(&name);
        let mut stored = judged.stored;
        let contents = contents::findings(&document, &name, settings);
        if contents.iter().any(Finding::is_error) {
            stored = None;
        }
        report.findings.extend(contents);
        if stored.is_none() && document.kind() == "LLMInferenceServiceConfig" {
            broken.insert(key_of(&name));
        }
        report.checked.push((name, stored.is_some()));
        sound.extend(stored);
    }
    for one in &sound {
        report.findings.extend(given.note_of_pool(&one.document, &one.object_name()));
    }
    together(&cluster, &sound, Files { broken, given }, settings, report);
}

/// A service with its plan, or why it has none. Each service is planned once, because this is most of the work.
type SubjectPlan<'a> = (&'a Subject, Result<PlannedService, PlanningError>);

/// Facts about all manifests, also about refused ones.
struct Files {
    /// The configs with errors.
    broken: BTreeSet<Key>,
    /// All objects.
    given: ManifestObjects,
}

/// Validates routes with their Gateways, API keys with each other, and services with their layers.
fn together(
    cluster: &Cluster,
    sound: &[StoredManifest],
    files: Files,
    settings: &Settings,
    report: &mut Report,
) {
    // These need no composed service, so they are said even if the settings of the platform are wrong.
    let gateways = ManifestGateways::among(sound);
    let of_routes = gateways.of_routes(sound).into_iter().chain(gateways::refused_fields(sound));
    let of_routes = of_routes.chain(own_routes::without_back_ends(sound));
    let of_contents = contents::api_keys(sound).into_iter().chain(contents::further_defaults(sound));
    for finding in of_routes.chain(of_contents) {
        if let Some(object) = finding.object.as_ref().filter(|_| finding.is_error()) {
            report.refuse(object);
        }
        report.findings.push(finding);
    }
    let services: Vec<&StoredManifest> =
        sound.iter().filter(|one| one.is_ours("LLMInferenceService")).collect();
    report.findings.extend(gateways::findings(sound, &files.given));
    let configs: Vec<&StoredManifest> =
        sound.iter().filter(|one| one.is_ours("LLMInferenceServiceConfig")).collect();
    let Some(first) = services.first().or(configs.first()) else {
        report.findings.extend(own_routes::missing(sound, &files.given, |_, _| false));
        return;
    };
    let scene = match composed_scene(sound, settings, first) {
        Ok(scene) => scene,
        Err(finding) => {
            report.findings.push(*finding);
            return;
        }
    };
    // Errors of given presets are reported too.
    report.findings.extend(scene.findings.iter().filter(|finding| finding.is_error()).cloned());
    let Some(resource) = cluster.kinds.stored("LLMInferenceService") else { return };
    let plans = parallel::map(&scene.subjects, |subject| scene.plan(&subject.service));
    let plans: Vec<SubjectPlan<'_>> = scene.subjects.iter().zip(plans).collect();
    report.findings.extend(scale_target::findings(&scene, &plans, sound, &files.given));
    report.findings.extend(models::findings(&scene, &plans));
    report.findings.extend(own_routes::of_files(&scene, &plans, sound, &files.given));
    let layers = Layers {
        scene: &scene,
        facts: &cluster.facts,
        resource: &resource,
        broken: files.broken,
        gateways,
        given: files.given,
        claims: SingleNodeClaims::among(sound),
    };
    report.findings.extend(configs::findings(&layers, &configs));
    let checked = parallel::map(&services, |stored| {
        let (name, key) = (stored.object_name(), stored.key());
        let planned = plans.iter().find(|(subject, _)| subject.has(&key));
        let findings = planned
            .map(|(subject, planned)| layers.check(&stored.document, &subject.service, &name, planned));
        (name, findings.unwrap_or_default())
    });
    for (name, findings) in checked {
        let mut errors = findings.iter().filter(|finding| finding.is_error()).peekable();
        if errors.peek().is_some() {
            report.refuse(&name);
        }
        // The field may be in another object, such as the ConfigMap with the picker's configuration.
        errors.filter_map(|error| error.object.as_ref()).for_each(|object| report.refuse(object));
        report.findings.retain(|known| !findings.iter().any(|new| supersedes(new, known, &name)));
        report.findings.extend(findings);
    }
}

/// Returns the scene with these objects, or why nothing can be composed. `first` is the object that shows it, unless the settings
/// of the platform are at fault.
fn composed_scene(
    sound: &[StoredManifest],
    settings: &Settings,
    first: &StoredManifest,
) -> Result<Scene, Box<Finding>> {
    let composed = Scene::fresh(settings).and_then(|mut scene| {
        scene.hold(sound.to_vec(), settings)?;
        Ok(scene)
    });
    composed.map_err(|error| {
        // The settings that were given apart from the manifests.
        let finding = if let (SceneError::Platform(error), Some(given)) = (&error, &settings.platform) {
            let path = error.section().map_or_else(|| "data".to_owned(), |section| format!("data.{section}"));
            let name = ObjectName::of(given, Namespace(given.namespace()));
            let message = format!("no service can be composed with these settings: {error}");
            Finding::at(given, &name, &path, Source::Compose).error("Layers", message)
        } else {
            let finding = Finding::at(&first.document, &first.object_name(), "spec", Source::Compose);
            finding.error("Layers", format!("cannot merge the layers: {error}"))
        };
        Box::new(finding)
    })
}

/// Whether a finding about a composed service takes the place of one about the service alone.
fn supersedes(new: &Finding, known: &Finding, service: &ObjectName) -> bool {
    // The webhooks only warn about some mistakes that are errors for the service as a whole.
    let is_repeated = new.object == known.object && new.path == known.path && new.message == known.message;
    // What is an error need not be warned about too.
    let is_worse = known.severity == Severity::Warning
        && known.object.as_ref() == Some(service)
        && !known.path.is_empty()
        && new.is_error()
        && new.path == known.path;
    is_repeated || is_worse
}
