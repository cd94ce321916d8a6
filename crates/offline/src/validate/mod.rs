//! What an API server, the webhooks and the controller would say about manifests (contract 01 §5, §6, §8, §9; 02 §6).

mod finding;
mod hint;
mod kinds;
mod layers;
mod object;
mod template;
#[cfg(test)]
mod tests;
mod unknown;

use std::collections::{BTreeSet, HashMap};

use longboat_admission::{Facts, LocalModels};
use longboat_compose::Composer;
use longboat_manifest::{Document, Reading};
use serde_json::Value;

pub use finding::{Finding, ObjectName, Severity, Source};

use crate::{Context, DEFAULT_NAMESPACE, Settings, Workspace};
use kinds::{Kinds, Known};
use layers::{Layers, key_of};
use object::Examination;

/// What validating came to.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Report {
    /// What there is to say, in the order of the files.
    pub findings: Vec<Finding>,
    /// Objects that were checked, in the order of the files, and whether they are without errors.
    pub checked: Vec<(ObjectName, bool)>,
}

// === impl Report ===

impl Report {
    /// How many findings of this kind there are.
    pub fn count(&self, severity: Severity) -> usize {
        self.findings.iter().filter(|finding| finding.severity == severity).count()
    }

    /// Whether there is no error.
    pub fn is_clean(&self) -> bool {
        self.count(Severity::Error) == 0
    }
}

/// Validates what was read: each object by itself, all of them together, and services with the layers that they build
/// on.
pub fn validate(reading: Reading, settings: &Settings) -> Report {
    let Reading { documents, problems } = reading;
    let order: HashMap<String, usize> = {
        let sources = documents.iter().map(|document| document.source.to_string());
        let broken = problems.iter().filter_map(|problem| problem.place().0);
        let mut order = HashMap::new();
        for source in sources.chain(broken) {
            let next = order.len();
            order.entry(source).or_insert(next);
        }
        order
    };
    let mut report = Report::default();
    report.findings.extend(problems.iter().map(Finding::unreadable));
    Run::of(&documents, settings).all(documents.clone(), &mut report);
    report.findings.sort_by_key(|finding| {
        let file = order.get(&finding.file).copied().unwrap_or(usize::MAX);
        (file, finding.line, finding.column, finding.severity)
    });
    report
}

/// What looking at one object came to.
struct Judged {
    /// Its group and name, if its kind is known.
    checked: Option<(String, ObjectName)>,
    is_sound: bool,
    findings: Vec<Finding>,
}

struct Run<'a> {
    kinds: Kinds,
    facts: Facts,
    settings: &'a Settings,
}

impl<'a> Run<'a> {
    fn of(documents: &[Document], settings: &'a Settings) -> Self {
        let facts = Facts {
            system_namespace: settings.system_namespace.clone(),
            preset_prefix: settings.preset_names.prefix.clone(),
            local_models: LocalModels::default(),
            ..Facts::default()
        };
        Self { kinds: Kinds::of(documents), facts, settings }
    }

    fn all(&self, documents: Vec<Document>, report: &mut Report) {
        let mut seen: HashMap<(String, String, String, String), String> = HashMap::new();
        let mut sound = Vec::with_capacity(documents.len());
        let mut broken = BTreeSet::new();
        let judged = longboat_parallel::map(&documents, |document| self.one(document));
        for (document, judged) in documents.into_iter().zip(judged) {
            report.findings.extend(judged.findings);
            // What is not known is neither sound nor broken.
            let Some((group, name)) = judged.checked else { continue };
            let mut is_sound = judged.is_sound;
            if !document.name().is_empty() {
                let key = (group, name.kind.clone(), name.namespace.clone(), name.name.clone());
                if let Some(first) = seen.get(&key) {
                    report.findings.push(repeated(&document, &name, first));
                    is_sound = false;
                } else {
                    seen.insert(key, document.place(""));
                }
            }
            report.checked.push((name, is_sound));
            if is_sound {
                sound.push(document);
            } else if document.kind() == "LLMInferenceServiceConfig" {
                broken.insert((namespace_of(&document).to_owned(), document.name().to_owned()));
            }
        }
        self.together(sound, broken, report);
    }

    /// One object by itself.
    fn one(&self, document: &Document) -> Judged {
        let resource = match self.kinds.find(document) {
            Known::Yes(resource) => resource,
            Known::Misspelt(problem, hint) => {
                let name = ObjectName::of(document, document.namespace());
                let mut finding = Finding::at(document, &name, "kind", Source::Schema);
                "NoMatch".clone_into(&mut finding.reason);
                finding.code = Some(404);
                finding.message = problem;
                finding.hint = Some(hint);
                return Judged {
                    checked: Some((String::new(), name)),
                    is_sound: false,
                    findings: vec![finding],
                };
            }
            Known::No => {
                let name = ObjectName::of(document, document.namespace());
                let mut finding = Finding::at(document, &name, "", Source::Schema);
                finding.severity = Severity::Note;
                "NotChecked".clone_into(&mut finding.reason);
                finding.message =
                    format!("{} in {} is not known here: it was not checked", name.kind, name.api_version);
                return Judged { checked: None, is_sound: false, findings: vec![finding] };
            }
        };
        let namespace = if resource.namespaced { namespace_of(document) } else { "" };
        let name = ObjectName::of(document, namespace);
        let examination = Examination { document, name: &name, resource: &resource, facts: &self.facts };
        let checked = examination.run(placed(document, namespace));
        Judged {
            is_sound: checked.is_sound(),
            findings: checked.findings,
            checked: Some((resource.group.clone(), name)),
        }
    }

    /// Services with the layers that they build on.
    fn together(&self, sound: Vec<Document>, broken: BTreeSet<(String, String)>, report: &mut Report) {
        let workspace = Workspace::of(sound);
        if workspace.services.is_empty() {
            return;
        }
        let context = match Context::of(&workspace, self.settings) {
            Ok(context) => context,
            Err(error) => {
                let first = &workspace.services[0];
                let name = ObjectName::of(&first.document, first.namespace());
                let mut finding = Finding::at(&first.document, &name, "spec", Source::Compose);
                "Layers".clone_into(&mut finding.reason);
                finding.message = format!("layers cannot be put together: {error}");
                report.findings.push(finding);
                return;
            }
        };
        let Some(resource) = self.kinds.stored_service() else { return };
        let facts = Facts { platform: Ok(context.platform.clone()), ..self.facts.clone() };
        let layers = Layers {
            context: &context,
            composer: Composer::default(),
            facts: &facts,
            resource: &resource,
            configs: workspace
                .configs
                .iter()
                .map(|member| {
                    let name = ObjectName::of(&member.document, member.namespace());
                    (key_of(&name), &member.document)
                })
                .collect(),
            broken,
        };
        let checked = longboat_parallel::map(&workspace.services, |member| {
            let name = ObjectName::of(&member.document, member.namespace());
            let findings = layers.check(member, &name);
            (name, findings)
        });
        for (name, findings) in checked {
            if findings.iter().any(|finding| finding.severity == Severity::Error)
                && let Some((_, is_sound)) = report.checked.iter_mut().find(|(checked, _)| *checked == name)
            {
                *is_sound = false;
            }
            report.findings.extend(findings);
        }
    }
}

fn repeated(document: &Document, name: &ObjectName, first: &str) -> Finding {
    let mut finding = Finding::at(document, name, "metadata.name", Source::Manifest);
    "Duplicate".clone_into(&mut finding.reason);
    finding.message = format!("{name} is already at {first}");
    finding.hint = Some("the later one would replace the earlier one: remove or rename one".to_owned());
    finding
}

fn namespace_of(document: &Document) -> &str {
    match document.namespace() {
        "" => DEFAULT_NAMESPACE,
        namespace => namespace,
    }
}

/// The object in its namespace.
fn placed(document: &Document, namespace: &str) -> Value {
    let mut object = document.object.clone();
    if document.namespace().is_empty() && !namespace.is_empty() && object["metadata"].is_object() {
        object["metadata"]["namespace"] = Value::from(namespace);
    }
    object
}
