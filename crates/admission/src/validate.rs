//! Checks whether an object may be created, updated or deleted.

use longboat_api::{
    annotations::PICKER,
    conversion::Version,
    fields,
    picker_choice::PickerChoice,
    v1alpha2::{LLMInferenceService, LLMInferenceServiceConfig, LLMInferenceServiceSpec},
    validation::{self, Report},
};
use longboat_compose::{Platform, sample};
use longboat_key::{Name, Namespace};
use serde_json::Value;

use crate::{Answer, Denial, Facts, Request, Subject, hub, model, older};

/// Checks an object that is created, updated or deleted.
pub fn validate(subject: Subject, request: &Request<'_>, facts: &Facts) -> Answer {
    let answer = match subject {
        Subject::Service => service(request, facts),
        Subject::Config => config(request, facts),
    };
    answer.unwrap_or_else(|denial| Answer { denial: Some(denial), warnings: Vec::new() })
}

/// Returns why a service in the storage version may not be created, or `None` if it may.
pub(crate) fn creation(service: &LLMInferenceService) -> Option<Denial> {
    let report = validation::validate_create(service, Version::V1Alpha2);
    verdict(Subject::Service, service.metadata.name.as_deref(), report).denial
}

fn service(request: &Request<'_>, facts: &Facts) -> Result<Answer, Denial> {
    let Some(object) = request.object else { return Ok(Answer::default()) };
    if request.is_of_deleted() {
        return Ok(Answer::default());
    }
    let version = request.version;
    let new: LLMInferenceService = hub::read(object, version)?;
    let old = stored(request).map(|old| hub::read::<LLMInferenceService>(old, version));
    let mut report = match old {
        Some(Ok(old)) => validation::validate_update(&old, &new, version),
        // The stored object cannot be decoded, so every valid new object is an improvement.
        Some(Err(_)) | None => validation::validate_create(&new, version),
    };
    if version == Version::V1Alpha1 {
        older::check(object, &mut report);
        report.warnings.extend(fields::v1alpha1_warnings(object));
    }
    report.warnings.extend(fields::warnings(&new));
    if facts.judges_pickers {
        report.warnings.extend(picker(&new.spec, new.spec.base_refs.is_empty()));
    }
    report.warnings.extend(nothing_to_share(&new, facts));
    report.warnings.extend(model::warnings(&new.spec));
    Ok(verdict(Subject::Service, new.metadata.name.as_deref(), report))
}

fn config(request: &Request<'_>, facts: &Facts) -> Result<Answer, Denial> {
    let version = request.version;
    if request.operation == "DELETE" {
        let Some(old) = request.old else { return Ok(Answer::default()) };
        return deletion(old, facts);
    }
    let Some(object) = request.object else { return Ok(Answer::default()) };
    if request.is_of_deleted() {
        return Ok(Answer::default());
    }
    let converted = hub::of(object, version)?;
    let new: LLMInferenceServiceConfig = hub::decode(&converted, version)?;
    let old = stored(request).map(|old| hub::read::<LLMInferenceServiceConfig>(old, version));
    let mut report = match old {
        Some(Ok(old)) => validation::validate_config_update(&old, &new, &facts.preset_prefix),
        Some(Err(_)) | None => validation::validate_config(&new),
    };
    if version == Version::V1Alpha1 {
        report.warnings.extend(fields::v1alpha1_warnings(object));
    }
    report.warnings.extend(fields::config_warnings(&new));
    if facts.judges_pickers {
        report.warnings.extend(picker(&new.spec, false));
    }
    report.warnings.extend(model::warnings(&new.spec));
    if report.is_accepted() {
        check_templates(&converted, facts, &mut report)?;
    }
    Ok(verdict(Subject::Config, new.metadata.name.as_deref(), report))
}

/// Returns a warning if no picker of this build would start with the configuration in a spec.
fn picker(spec: &LLMInferenceServiceSpec, is_complete: bool) -> Option<String> {
    let scheduler = spec.router.as_ref()?.scheduler.as_ref()?;
    let (path, error) = longboat_plan::refusal_of_spec(scheduler, is_complete)?;
    Some(format!("{path}: the picker will not start: {error}"))
}

/// Returns a warning if a service asks for the shared picker of a platform that has none. This is no error: the setting of the
/// platform may change at any time, and then updates of the service for other reasons would fail.
fn nothing_to_share(service: &LLMInferenceService, facts: &Facts) -> Option<String> {
    let choice = PickerChoice::of_annotations(service.metadata.annotations.as_ref());
    let is_shared = facts.platform.as_ref().map_or(true, |platform| platform.shared_picker);
    (choice == Some(PickerChoice::Shared) && !is_shared).then(|| {
        format!(
            "metadata.annotations[{PICKER}] is \"shared\", which has no effect: the service keeps a picker of its own, because \
             the setting \"longboat\".\"picker\" of the platform is not \"shared\". Set it there, or remove the annotation"
        )
    })
}

/// Refuses to delete presets of the platform. Only the name matters, so this also works for presets that cannot be decoded.
fn deletion(old: &Value, facts: &Facts) -> Result<Answer, Denial> {
    let place = |field: &str| old["metadata"][field].as_str().unwrap_or_default();
    let (namespace, name) = (Namespace(place("namespace")), Name(place("name")));
    let (system, prefix) = (facts.system_namespace.as_deref(), &facts.preset_prefix);
    let prevent = facts.prevent_preset_deletion;
    validation::validate_config_deletion(namespace, name, system, prefix, prevent)
        .map(|report| Answer { denial: None, warnings: report.warnings })
        .map_err(Denial::forbidden)
}

/// Renders the templates of a config. If the platform settings are missing or invalid, uses default settings: the values of
/// settings rarely decide whether a template works, and a config need not wait for them.
fn check_templates(config: &Value, facts: &Facts, report: &mut Report) -> Result<(), Denial> {
    let default;
    let platform = match &facts.platform {
        Ok(platform) => platform,
        Err(error) => {
            report.warnings.push(format!(
                "templates were checked against the default settings, because the platform settings are \
                 invalid: {error}"
            ));
            default = Platform::default();
            &default
        }
    };
    sample::check(config, platform, facts.system_namespace.as_deref())
        .map_err(|error| Denial::forbidden(error.to_string()))
}

/// The stored object of an update.
fn stored<'a>(request: &Request<'a>) -> Option<&'a Value> {
    request.old.filter(|_| request.operation == "UPDATE")
}

fn verdict(subject: Subject, name: Option<&str>, report: Report) -> Answer {
    let denial = (!report.is_accepted()).then(|| Denial::invalid(subject, name.unwrap_or_default(), &report));
    Answer { denial, warnings: report.warnings }
}
