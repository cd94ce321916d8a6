//! Whether an object may be created, changed or deleted (contract 01 §8, §9).

use longboat_api::{
    v1alpha2::{LLMInferenceService, LLMInferenceServiceConfig},
    validation::{self, Report},
};

use crate::{Answer, Denial, Request, Rules, Subject, read::read};

/// Checks an object that is created, changed or deleted.
pub fn validate(subject: Subject, request: &Request<'_>, rules: &Rules) -> Answer {
    let answer = match subject {
        Subject::Service => service(request),
        Subject::Config => config(request, rules),
    };
    answer.unwrap_or_else(|denial| Answer { denial: Some(denial), warnings: Vec::new() })
}

fn service(request: &Request<'_>) -> Result<Answer, Denial> {
    let Some(object) = request.object else { return Ok(Answer::default()) };
    let new: LLMInferenceService = read(object)?;
    let report = match request.old {
        Some(old) if request.operation == "UPDATE" => match read::<LLMInferenceService>(old) {
            Ok(old) => validation::validate_update(&old, &new),
            // What is stored cannot be read: any readable state is better.
            Err(_) => validation::validate_create(&new),
        },
        _ => validation::validate_create(&new),
    };
    Ok(verdict("LLMInferenceService", new.metadata.name.as_deref(), report))
}

fn config(request: &Request<'_>, rules: &Rules) -> Result<Answer, Denial> {
    if request.operation == "DELETE" {
        let Some(old) = request.old else { return Ok(Answer::default()) };
        let config: LLMInferenceServiceConfig = read(old)?;
        let (namespace, prefix) = (&rules.system_namespace, &rules.preset_prefix);
        let prevent = rules.prevent_preset_deletion;
        let report = validation::validate_config_deletion(&config, namespace, prefix, prevent)
            .map_err(Denial::forbidden)?;
        return Ok(Answer { denial: None, warnings: report.warnings });
    }
    let Some(object) = request.object else { return Ok(Answer::default()) };
    let new: LLMInferenceServiceConfig = read(object)?;
    let old = request.old.filter(|_| request.operation == "UPDATE").map(read::<LLMInferenceServiceConfig>);
    let report = match old {
        Some(Ok(old)) => validation::validate_config_update(&old, &new, &rules.preset_prefix),
        _ => validation::validate_config(&new),
    };
    Ok(verdict("LLMInferenceServiceConfig", new.metadata.name.as_deref(), report))
}

fn verdict(kind: &str, name: Option<&str>, report: Report) -> Answer {
    let denial = (!report.is_accepted()).then(|| Denial::invalid(kind, name.unwrap_or_default(), &report));
    Answer { denial, warnings: report.warnings }
}
