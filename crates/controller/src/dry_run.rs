//! Asks the API server whether it would accept a merged spec (contract 01 §10.6, 02 §6.1).

use std::{
    collections::HashMap,
    hash::{DefaultHasher, Hash, Hasher},
};

use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use kube::{Api, Client, api::PostParams};
use longboat_api::{
    child_name,
    names::suffix,
    v1alpha2::{LLMInferenceService, LLMInferenceServiceSpec},
};
use longboat_compose::outcome::{DryRun, Rejection};
use parking_lot::Mutex;

use crate::{error::text_of, key::Key};

/// Answers of the API server, each asked for once as long as the merged spec stays the same. The reference asks on every
/// pass.
#[derive(Debug, Default)]
pub(crate) struct DryRuns {
    answers: Mutex<HashMap<Key, (u64, DryRun)>>,
}

// === impl DryRuns ===

impl DryRuns {
    /// Whether the API server would accept a service with this spec.
    pub(crate) async fn check(
        &self,
        client: &Client,
        service: &Key,
        spec: &LLMInferenceServiceSpec,
    ) -> DryRun {
        let object = LLMInferenceService {
            metadata: ObjectMeta {
                generate_name: Some(child_name(&service.name, suffix::VALIDATION)),
                namespace: Some(service.namespace.clone()),
                ..ObjectMeta::default()
            },
            spec: spec.clone(),
            status: None,
        };
        let Ok(text) = serde_json::to_string(&object) else {
            return DryRun::Unavailable(Rejection {
                message: "the merged spec cannot be printed".into(),
                ..Rejection::default()
            });
        };
        let mut hasher = DefaultHasher::new();
        text.hash(&mut hasher);
        let hash = hasher.finish();
        if let Some((known, answer)) = self.answers.lock().get(service)
            && *known == hash
        {
            return answer.clone();
        }
        let api: Api<LLMInferenceService> = Api::namespaced(client.clone(), &service.namespace);
        let params = PostParams { dry_run: true, ..PostParams::default() };
        let answer = match api.create(&params, &object).await {
            Ok(_) => DryRun::Accepted,
            Err(error) => refusal(&error),
        };
        if !matches!(answer, DryRun::Unavailable(_)) {
            self.answers.lock().insert(service.clone(), (hash, answer.clone()));
        }
        answer
    }

    /// Forgets a service.
    pub(crate) fn forget(&self, service: &Key) {
        self.answers.lock().remove(service);
    }
}

fn refusal(error: &kube::Error) -> DryRun {
    let kube::Error::Api(status) = error else {
        return DryRun::Unavailable(Rejection { message: text_of(error), ..Rejection::default() });
    };
    let causes = status.details.iter().flat_map(|details| &details.causes);
    let rejection = Rejection {
        causes: causes.map(|cause| (cause.field.clone(), cause.message.clone())).collect(),
        message: status.message.clone(),
    };
    if status.code == 422 { DryRun::Invalid(rejection) } else { DryRun::Unavailable(rejection) }
}
