//! Checks whether an API server would accept a service with a merged spec.
//!
//! The reference asks the API server on every reconcile, with a dry-run. Here no request is needed: the schema with its rules
//! is our own, and so are the webhooks.

use longboat_api::{
    crd, defaulting,
    v1alpha2::{LLMInferenceService, LLMInferenceServiceSpec},
};
use longboat_compose::outcome::Rejection;
use longboat_schema::StructuralSchema;
use serde_json::{Value, json};

use crate::{Denial, Version, hub, validate};

/// Checks merged specs.
#[derive(Clone, Debug)]
pub struct MergedSpecs {
    schema: StructuralSchema,
}

// === impl MergedSpecs ===

impl Default for MergedSpecs {
    /// Uses the schema of the storage version, which is compiled at the first check.
    fn default() -> Self {
        Self { schema: StructuralSchema::parse(crd::SERVICE_SPEC) }
    }
}

impl MergedSpecs {
    /// Returns why an API server would refuse to create a service with `spec`, or `None` if it would accept it. The steps are
    /// those of a request: pruning and schema defaults, our defaulting, the schema and its rules, our validation.
    pub fn rejection(&self, spec: &LLMInferenceServiceSpec) -> Option<Rejection> {
        let spec = match serde_json::to_value(spec) {
            Ok(spec) => spec,
            Err(error) => {
                return Some(Rejection {
                    message: format!("cannot print the merged spec: {error}"),
                    causes: Vec::new(),
                });
            }
        };
        let mut object = json!({"metadata": {}, "spec": spec});
        self.schema.prune_and_default(&mut object);
        if let Err(error) = defaulting::apply(&mut object) {
            let causes = vec![(error.field.clone(), error.source.to_string())];
            return Some(Rejection { message: error.to_string(), causes });
        }
        // An API server fills in the schema's defaults once more after mutating webhooks: ours may have added their parents.
        self.schema.default(&mut object);
        let causes = self.schema.validate(&object, None);
        if !causes.is_empty() {
            let causes: Vec<_> = causes.into_iter().map(|cause| (cause.field, cause.message)).collect();
            return Some(Rejection { message: String::new(), causes });
        }
        match hub::decode::<LLMInferenceService>(&object, Version::V1Alpha2) {
            Ok(service) => validate::creation(&service).map(of_denial),
            // Our types and the schema accept any text as a quantity, but the reference's decoder refuses some, such as
            // `1e1.5`.
            Err(denial) => Some(of_denial(denial)),
        }
    }
}

fn of_denial(denial: Denial) -> Rejection {
    let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
    let causes = denial.details["causes"].as_array().map(Vec::as_slice).unwrap_or_default();
    let causes = causes.iter().map(|cause| (text(&cause["field"]), text(&cause["message"]))).collect();
    Rejection { message: denial.message, causes }
}

#[cfg(test)]
mod tests {
    use longboat_api::v1alpha2::LLMInferenceServiceSpec;
    use serde_json::json;

    use super::MergedSpecs;

    #[test]
    fn a_quantity_that_only_the_schema_takes_is_refused() {
        let rejection = |memory: &str| {
            let main = json!({"name": "main", "image": "i", "resources": {"limits": {"memory": memory}}});
            let spec = json!({"model": {"uri": "hf://a/b", "name": "b"}, "template": {"containers": [main]}});
            let spec: LLMInferenceServiceSpec = serde_json::from_value(spec).unwrap();
            MergedSpecs::default().rejection(&spec)
        };
        assert_eq!(rejection("1e3"), None);
        let refused = rejection("1e1.5").unwrap();
        assert!(refused.message.contains("quantities must match"), "{refused:?}");
    }
}
