//! The service account of a new pod: the account must exist, and its image pull secrets apply to the pod.

use std::{sync::Arc, time::Duration};

use longboat_patch::gofmt;
use serde_json::Value;

use crate::{
    review::Review,
    state::State,
    status::ApiError,
    store::{Key, StoredObject},
    strategy::names::{self, NameRule},
};

/// The account of pods that name no account.
const DEFAULT: &str = "default";
/// How often the admission looks for the default account, which appears soon after its namespace.
const MAX_ATTEMPTS: u32 = 10;
/// The time between two attempts.
const RETRY_INTERVAL: Duration = Duration::from_millis(100);

/// Sets the account of a new pod, and refuses a pod whose account does not exist. Returns whether it may have changed the pod.
pub(crate) async fn admit(state: &State, review: &Review<'_>, pod: &mut Value) -> Result<bool, ApiError> {
    if !state.options.pods_need_accounts || !review.is_new_pod() {
        return Ok(false);
    }
    let spec = &mut pod["spec"];
    if spec["serviceAccountName"].as_str().is_none_or(str::is_empty) {
        spec["serviceAccountName"] = Value::from(DEFAULT);
        spec["serviceAccount"] = Value::from(DEFAULT);
    }
    let name = spec["serviceAccountName"].as_str().unwrap_or_default().to_owned();
    let namespace = review.namespace.as_deref().unwrap_or_default();
    let account = match find(state, namespace, &name).await {
        Ok(account) => account,
        Err(why) => {
            let why = format!("error looking up service account {namespace}/{name}: {why}");
            return Err(review.forbidden(pod, why));
        }
    };
    let spec = &mut pod["spec"];
    let secrets = &account.value["imagePullSecrets"];
    if spec["imagePullSecrets"].as_array().is_none_or(Vec::is_empty) && secrets.is_array() {
        spec["imagePullSecrets"] = secrets.clone();
    }
    Ok(true)
}

async fn find(state: &State, namespace: &str, name: &str) -> Result<Arc<StoredObject>, String> {
    let problems = names::problems(NameRule::PathSegment, name);
    if !problems.is_empty() {
        return Err(format!("invalid resource name {}: [{}]", gofmt::quote(name), problems.join(" ")));
    }
    let key = Key::new(namespace, name);
    let tries = if name == DEFAULT { MAX_ATTEMPTS } else { 1 };
    for attempt in 1..=tries {
        if let Some(account) = state.store.get("/serviceaccounts", &key) {
            return Ok(account);
        }
        if attempt < tries {
            tokio::time::sleep(RETRY_INTERVAL).await;
        }
    }
    Err(format!("serviceaccount {} not found", gofmt::quote(name)))
}

#[cfg(test)]
mod tests {
    use k8s_openapi::api::core::v1::{LocalObjectReference, Pod, ServiceAccount};
    use kube::{Api, Error, api::PostParams};
    use serde_json::json;

    use crate::{ApiServer, Options};

    fn pod(name: &str, account: Option<&str>) -> Pod {
        let spec = json!({"serviceAccountName": account, "containers": [{"name": "c", "image": "i"}]});
        serde_json::from_value(json!({"metadata": {"name": name}, "spec": spec})).unwrap()
    }

    fn account(name: &str) -> ServiceAccount {
        let secrets = json!([{"name": "pull"}]);
        serde_json::from_value(json!({"metadata": {"name": name}, "imagePullSecrets": secrets})).unwrap()
    }

    #[tokio::test(start_paused = true)]
    async fn a_pod_needs_its_account_and_waits_for_the_default_one() {
        let options = Options { pods_need_accounts: true, ..Options::default() };
        let client = ApiServer::new(options).unwrap().client("default");
        let pods: Api<Pod> = Api::default_namespaced(client.clone());
        let accounts: Api<ServiceAccount> = Api::default_namespaced(client);
        let (with, new) = (PostParams::default(), pod("a", Some("own")));
        let Err(Error::Api(refused)) = pods.create(&with, &new).await else { panic!("it was created") };
        assert_eq!(refused.code, 403);
        let why = "error looking up service account default/own: serviceaccount \"own\" not found";
        assert_eq!(refused.message, format!("pods \"a\" is forbidden: {why}"));
        let mut generated = pod("", Some("own"));
        (generated.metadata.name, generated.metadata.generate_name) = (None, Some("a-".to_owned()));
        let Err(Error::Api(refused)) = pods.create(&with, &generated).await else { panic!("it was created") };
        assert_eq!(refused.message, format!("pods \"a-\" is forbidden: {why}"));
        accounts.create(&with, &account("own")).await.unwrap();
        let secrets = pods.create(&with, &new).await.unwrap().spec.unwrap().image_pull_secrets;
        assert_eq!(secrets, Some(vec![LocalObjectReference { name: "pull".to_owned() }]));

        let new = pod("b", None);
        let soon = async {
            tokio::time::sleep(super::RETRY_INTERVAL).await;
            accounts.create(&with, &account("default")).await
        };
        let (created, made) = tokio::join!(pods.create(&with, &new), soon);
        made.unwrap();
        assert_eq!(created.unwrap().spec.unwrap().service_account_name.as_deref(), Some("default"));
    }

    #[tokio::test]
    async fn pods_need_no_account_where_nobody_makes_any() {
        let client = ApiServer::new(Options::default()).unwrap().client("default");
        let pods: Api<Pod> = Api::default_namespaced(client);
        let created = pods.create(&PostParams::default(), &pod("a", Some("own"))).await.unwrap();
        assert_eq!(created.spec.unwrap().service_account_name.as_deref(), Some("own"));
    }
}
