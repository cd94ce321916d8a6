//! Configs that a service names and cannot have.

use longboat_key::Key;
use longboat_manifest::Document;
use longboat_strategy::names::{NameRule, problems};

use crate::finding::{Finding, ObjectName, Source};

/// Returns the error that a config has errors, so no server has it.
pub(super) fn broken(document: &Document, name: &ObjectName, index: usize, wanted: &str) -> Finding {
    let message =
        format!("LLMInferenceServiceConfig {wanted:?} has errors, so this service cannot be composed");
    let finding = Finding::at(document, name, &format!("spec.baseRefs[{index}].name"), Source::Compose);
    let hint = "mend the config first: the fields of this service are checked only together with it";
    finding.error("ConfigRefused", message).with_hint(hint)
}

/// Returns the error that no config can have this name.
pub(super) fn misnamed(
    document: &Document,
    name: &ObjectName,
    index: usize,
    wanted: &str,
) -> Option<Finding> {
    let problem = problems(NameRule::Subdomain, wanted).into_iter().next()?;
    let finding = Finding::at(document, name, &format!("spec.baseRefs[{index}].name"), Source::Compose);
    let message = format!("no LLMInferenceServiceConfig can have the name {wanted:?}: {problem}");
    Some(finding.error("FieldValueInvalid", message))
}

/// Returns the namespace of an object with that name. For a name that no object has in the namespaces of the service.
pub(super) fn elsewhere<'a>(mut objects: impl Iterator<Item = &'a Key>, wanted: &str) -> Option<&'a str> {
    objects.find(|key| *key.name == *wanted).map(|key| &*key.namespace)
}
