//! The admission plugins Priority and RuntimeClass, whose rules `longboat_strategy` has: here they find classes in the store.

use longboat_strategy::plugins;
use serde_json::Value;

use crate::{review::Review, state::State, status::ApiError, store::Key};

/// Where PriorityClasses are stored.
const CLASSES: &str = "scheduling.k8s.io/priorityclasses";

/// Sets the priority of a new pod. Returns whether it may have changed the pod.
pub(crate) fn mutate(state: &State, review: &Review<'_>, pod: &mut Value) -> Result<bool, ApiError> {
    if !review.is_new_pod() {
        return Ok(false);
    }
    let find = |name: &str| match name {
        "" => default_class(state),
        _ => Some(state.store.get(CLASSES, &Key::new("", name))?.value.clone()),
    };
    match plugins::prioritise(pod, find) {
        Ok(()) => Ok(true),
        Err(cause) => Err(review.forbidden(pod, cause.message)),
    }
}

/// Refuses a new pod with an overhead of its own, and a second default PriorityClass.
pub(crate) fn validate(state: &State, review: &Review<'_>, object: &Value) -> Result<(), ApiError> {
    if review.is_new_pod() {
        plugins::overhead(object).map_err(|cause| review.forbidden(object, cause.message))?;
    }
    if review.resource.table.as_ref() == CLASSES
        && object["globalDefault"] == true
        && let Some(other) = default_class(state)
        && (review.operation == "CREATE" || other["metadata"]["name"] != object["metadata"]["name"])
    {
        let name = other["metadata"]["name"].as_str().unwrap_or_default();
        let why = format!("PriorityClass {name} is already marked as default. Only one default can exist");
        return Err(review.forbidden(object, why));
    }
    Ok(())
}

/// The PriorityClass of pods that name none. Of several, it is the one with the lowest value.
fn default_class(state: &State) -> Option<Value> {
    let all = state.store.list(CLASSES, None).objects.into_iter().map(|(_, class)| class);
    let defaults = all.filter(|class| class.value["globalDefault"] == true);
    defaults.min_by_key(|class| class.value["value"].as_i64()).map(|class| class.value.clone())
}

#[cfg(test)]
mod tests {
    use k8s_openapi::api::{core::v1::Pod, scheduling::v1::PriorityClass};
    use kube::{Api, Error, api::PostParams};
    use serde_json::{Value, json};

    use crate::{ApiServer, Options};

    fn object<K: serde::de::DeserializeOwned>(name: &str, fields: &Value) -> K {
        let mut object = json!({"metadata": {"name": name}});
        object.as_object_mut().unwrap().extend(fields.as_object().unwrap().clone());
        serde_json::from_value(object).unwrap()
    }

    fn pod(name: &str, fields: &Value) -> Pod {
        let mut spec = json!({"containers": [{"name": "c", "image": "i"}]});
        spec.as_object_mut().unwrap().extend(fields.as_object().unwrap().clone());
        object(name, &json!({"spec": spec}))
    }

    fn message<T>(result: Result<T, Error>) -> String {
        match result {
            Err(Error::Api(refused)) => format!("{} {}", refused.code, refused.message),
            _ => String::new(),
        }
    }

    #[tokio::test]
    async fn pods_get_the_priority_of_their_class_and_there_is_one_default_class() {
        let client = ApiServer::new(Options::default()).unwrap().client("default");
        let (pods, classes): (Api<Pod>, Api<PriorityClass>) =
            (Api::default_namespaced(client.clone()), Api::all(client));
        let with = PostParams::default();
        let refused = pods.create(&with, &pod("a", &json!({"priority": 100}))).await;
        let why = "the integer value of priority (100) must not be provided in pod spec; priority admission controller computed 0 \
                   from the given PriorityClass name";
        assert_eq!(message(refused), format!("403 pods \"a\" is forbidden: {why}"));
        let unknown = pod("a", &json!({"priorityClassName": "unknown"}));
        assert_eq!(pods.create(&with, &unknown).await.unwrap().spec.unwrap().priority, Some(0));

        let class = |value: i32| json!({"value": value, "globalDefault": true, "preemptionPolicy": "Never"});
        classes.create(&with, &object("low", &class(5))).await.unwrap();
        let created = pods.create(&with, &pod("b", &json!({}))).await.unwrap().spec.unwrap();
        assert_eq!(created.priority_class_name.as_deref(), Some("low"));
        assert_eq!((created.priority, created.preemption_policy.as_deref()), (Some(5), Some("Never")));
        let refused = classes.create(&with, &object("high", &class(9))).await;
        let why = "PriorityClass low is already marked as default. Only one default can exist";
        let about = "403 priorityclasses.scheduling.k8s.io \"high\" is forbidden";
        assert_eq!(message(refused), format!("{about}: {why}"));
        let low = classes.get("low").await.unwrap();
        classes.replace("low", &with, &low).await.unwrap();
    }

    #[tokio::test]
    async fn a_pod_has_no_overhead_of_its_own() {
        let client = ApiServer::new(Options::default()).unwrap().client("default");
        let pods: Api<Pod> = Api::default_namespaced(client);
        let refused =
            pods.create(&PostParams::default(), &pod("a", &json!({"overhead": {"cpu": "1"}}))).await;
        let why = "pod rejected: Pod Overhead set without corresponding RuntimeClass defined Overhead";
        assert_eq!(message(refused), format!("403 pods \"a\" is forbidden: {why}"));
        let other = pod("a", &json!({"overhead": {"cpu": "1"}, "runtimeClassName": "vm"}));
        pods.create(&PostParams::default(), &other).await.unwrap();
    }
}
