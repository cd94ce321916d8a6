//! Whether an object may be created, changed or deleted (contract 01 §8, §9).

use longboat_api::{
    v1alpha2::{LLMInferenceService, LLMInferenceServiceConfig},
    validation::{self, Report, Rules},
};

use crate::{Answer, Denial, Facts, Request, Subject, Version, hub, read::read};

/// Checks an object that is created, changed or deleted.
pub fn validate(subject: Subject, request: &Request<'_>, facts: &Facts) -> Answer {
    let answer = match subject {
        Subject::Service => service(request),
        Subject::Config => config(request, facts),
    };
    answer.unwrap_or_else(|denial| Answer { denial: Some(denial), warnings: Vec::new() })
}

fn service(request: &Request<'_>) -> Result<Answer, Denial> {
    let Some(object) = request.object else { return Ok(Answer::default()) };
    let new: LLMInferenceService = read(&hub::of(object, request.version))?;
    let rules = rules(request.version);
    let report = match request.old {
        Some(old) if request.operation == "UPDATE" => {
            match read::<LLMInferenceService>(&hub::of(old, request.version)) {
                Ok(old) => validation::validate_update(&old, &new, rules),
                // What is stored cannot be read: any readable state is better.
                Err(_) => validation::validate_create(&new, rules),
            }
        }
        _ => validation::validate_create(&new, rules),
    };
    Ok(verdict(Subject::Service, new.metadata.name.as_deref(), report))
}

fn config(request: &Request<'_>, facts: &Facts) -> Result<Answer, Denial> {
    if request.operation == "DELETE" {
        let Some(old) = request.old else { return Ok(Answer::default()) };
        let config: LLMInferenceServiceConfig = read(&hub::of(old, request.version))?;
        let (namespace, prefix) = (&facts.system_namespace, &facts.preset_prefix);
        let prevent = facts.prevent_preset_deletion;
        let report = validation::validate_config_deletion(&config, namespace, prefix, prevent)
            .map_err(Denial::forbidden)?;
        return Ok(Answer { denial: None, warnings: report.warnings });
    }
    let Some(object) = request.object else { return Ok(Answer::default()) };
    let new: LLMInferenceServiceConfig = read(&hub::of(object, request.version))?;
    let old = request
        .old
        .filter(|_| request.operation == "UPDATE")
        .map(|old| read::<LLMInferenceServiceConfig>(&hub::of(old, request.version)));
    let report = match old {
        Some(Ok(old)) => validation::validate_config_update(&old, &new, &facts.preset_prefix),
        _ => validation::validate_config(&new),
    };
    Ok(verdict(Subject::Config, new.metadata.name.as_deref(), report))
}

/// The rules for objects of a version (contract 01 §8.3).
fn rules(version: Version) -> Rules {
    match version {
        Version::V1Alpha1 => Rules::V1Alpha1,
        Version::V1Alpha2 => Rules::V1Alpha2,
    }
}

fn verdict(subject: Subject, name: Option<&str>, report: Report) -> Answer {
    let denial = (!report.is_accepted()).then(|| Denial::invalid(subject, name.unwrap_or_default(), &report));
    Answer { denial, warnings: report.warnings }
}
