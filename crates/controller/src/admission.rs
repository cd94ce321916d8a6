//! Admission of services and configs: plain functions over what an `AdmissionReview` holds (contract 01 §6, §8, §9).
//!
//! The embedded API server calls them in its own process; a webhook server calls them for HTTP requests.

use longboat_api::{
    defaulting,
    v1alpha2::{GROUP, LLMInferenceService, LLMInferenceServiceConfig},
    validation::{self, Report},
};
use serde::de::DeserializeOwned;
use serde_json::{Value, json};

/// What the rules depend on beside the objects.
#[derive(Clone, Debug)]
pub struct Rules {
    /// Namespace of the platform.
    pub system_namespace: String,
    /// Prefix of the names of presets.
    pub preset_prefix: String,
    /// Whether presets of the platform may not be deleted.
    pub prevent_preset_deletion: bool,
}

/// What is asked.
#[derive(Clone, Copy, Debug)]
pub struct Request<'a> {
    /// `CREATE`, `UPDATE` or `DELETE`.
    pub operation: &'a str,
    /// The object as it will be; none on `DELETE`.
    pub object: Option<&'a Value>,
    /// The object as it is stored; none on `CREATE`.
    pub old: Option<&'a Value>,
}

/// The answer.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Answer {
    /// Why the request is refused; none lets it pass.
    pub denial: Option<Denial>,
    /// What the user should know.
    pub warnings: Vec<String>,
}

/// A refusal.
#[derive(Clone, Debug, PartialEq)]
pub struct Denial {
    /// HTTP status code.
    pub code: u16,
    /// Reason of the Status.
    pub reason: &'static str,
    /// Message of the Status.
    pub message: String,
    /// `details` of the Status, with the causes by field; null where there are none.
    pub details: Value,
}

/// The kinds that are admitted here.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Subject {
    /// LLMInferenceService.
    Service,
    /// LLMInferenceServiceConfig.
    Config,
}

// === impl Subject ===

impl Subject {
    /// The kind of a resource, if it is one of ours.
    pub fn of(group: &str, resource: &str) -> Option<Self> {
        match (group, resource) {
            (GROUP, "llminferenceservices") => Some(Self::Service),
            (GROUP, "llminferenceserviceconfigs") => Some(Self::Config),
            _ => None,
        }
    }
}

// === impl Denial ===

impl Denial {
    /// The `Status` of a webhook's answer, or of an API server's.
    pub fn status(&self) -> Value {
        let mut status = json!({
            "apiVersion": "v1", "kind": "Status", "metadata": {}, "status": "Failure",
            "code": self.code, "reason": self.reason, "message": self.message,
        });
        if !self.details.is_null() {
            status["details"] = self.details.clone();
        }
        status
    }

    fn bad_request(message: String) -> Self {
        Self { code: 400, reason: "BadRequest", message, details: Value::Null }
    }

    fn forbidden(message: String) -> Self {
        Self { code: 403, reason: "Forbidden", message, details: Value::Null }
    }

    fn invalid(kind: &str, name: &str, report: &Report) -> Self {
        let causes: Vec<Value> = report
            .errors
            .iter()
            .map(|cause| json!({"reason": cause.kind.reason(), "field": cause.field, "message": cause.message}))
            .collect();
        Self {
            code: 422,
            reason: "Invalid",
            message: report.message(kind, name),
            details: json!({"group": GROUP, "kind": kind, "name": name, "causes": causes}),
        }
    }
}

/// Fills in the defaults of an object that is created or changed; the object instead of the one asked about, or none
/// where nothing changes. Configs have no defaults.
///
/// # Errors
/// When the object cannot be read.
pub fn mutate(subject: Subject, request: &Request<'_>) -> Result<Option<Value>, Denial> {
    let (Subject::Service, Some(object)) = (subject, request.object) else { return Ok(None) };
    let mut defaulted = object.clone();
    defaulting::apply(&mut defaulted).map_err(|error| Denial::bad_request(error.to_string()))?;
    read::<LLMInferenceService>(&defaulted)?;
    Ok((defaulted != *object).then_some(defaulted))
}

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

fn read<K: DeserializeOwned>(object: &Value) -> Result<K, Denial> {
    serde_json::from_value(object.clone()).map_err(|error| Denial::bad_request(error.to_string()))
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::{Request, Rules, Subject, mutate, validate};

    fn rules() -> Rules {
        Rules {
            system_namespace: "kserve".into(),
            preset_prefix: "kserve-".into(),
            prevent_preset_deletion: true,
        }
    }

    #[test]
    fn a_service_gets_its_defaults_once() {
        let object =
            json!({"metadata": {"name": "llm", "namespace": "ns"}, "spec": {"model": {"uri": "hf://a/b"}}});
        let request = Request { operation: "CREATE", object: Some(&object), old: None };
        let defaulted = mutate(Subject::Service, &request).unwrap().unwrap();
        assert_eq!(defaulted["spec"]["model"]["name"], "llm");
        let again = Request { operation: "UPDATE", object: Some(&defaulted), old: Some(&object) };
        assert_eq!(mutate(Subject::Service, &again).unwrap(), None);
    }

    #[test]
    fn an_invalid_service_is_refused_with_all_causes() {
        let object = json!({
            "metadata": {"name": "llm", "namespace": "ns"},
            "spec": {
                "model": {"uri": "hf://a/b"},
                "parallelism": {"pipeline": 2, "data": 2, "dataLocal": 1},
                "router": {"scheduler": {"replicas": 0}},
            },
        });
        let request = Request { operation: "CREATE", object: Some(&object), old: None };
        let denial = validate(Subject::Service, &request, &rules()).denial.unwrap();
        assert_eq!((denial.code, denial.reason), (422, "Invalid"));
        let fields: Vec<_> =
            denial.details["causes"].as_array().unwrap().iter().map(|c| &c["field"]).collect();
        assert_eq!(fields, ["spec.parallelism", "spec.router.scheduler.replicas"]);
    }

    #[test]
    fn wrong_types_are_a_bad_request() {
        let object = json!({"metadata": {"name": "llm"}, "spec": {"replicas": "two"}});
        let request = Request { operation: "CREATE", object: Some(&object), old: None };
        assert_eq!(mutate(Subject::Service, &request).unwrap_err().code, 400);
    }

    #[test]
    fn a_preset_of_the_platform_is_kept() {
        let preset = |namespace: &str| json!({"metadata": {"name": "kserve-config-llm-template", "namespace": namespace}, "spec": {}});
        let deny = |namespace: &str| {
            let old = preset(namespace);
            let request = Request { operation: "DELETE", object: None, old: Some(&old) };
            validate(Subject::Config, &request, &rules()).denial.map(|denial| denial.code)
        };
        assert_eq!(deny("kserve"), Some(403));
        assert_eq!(deny("elsewhere"), None);
    }
}
