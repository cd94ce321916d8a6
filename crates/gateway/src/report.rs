//! Writes statuses.

use std::fmt::Debug;

use k8s_openapi::{
    Metadata, NamespaceResourceScope,
    apimachinery::pkg::apis::meta::v1::{ObjectMeta, Time},
    jiff::Timestamp,
};
use kube::{
    Api, Client, Resource,
    api::{Patch, PatchParams},
};
use longboat_api::foreign::{
    backendtlspolicy::BackendTLSPolicy, gateway::Gateway, gatewayclass::GatewayClass, httproute::HTTPRoute,
    inferencepool::InferencePool, listenerset::ListenerSet,
};
use serde::{Serialize, de::DeserializeOwned};
use serde_json::json;

use crate::{
    RoutingInputs,
    resolved::Resolved,
    status::{self, Updates},
};

/// The fields of statuses that are omitted if they are empty. A merge patch has to name them to remove them.
const OPTIONAL_FIELDS: [&str; 3] = ["addresses", "attachedListenerSets", "listeners"];

/// Writes every status that differs from the current one.
pub(crate) async fn report(
    client: &Client,
    observed: &RoutingInputs,
    resolved: &Resolved,
) -> Result<(), kube::Error> {
    let Updates { classes, gateways, listener_sets, routes, pools, policies } =
        status::updates(observed, resolved, &Time(now()));
    for class in classes {
        write(&Api::<GatewayClass>::all(client.clone()), &class.metadata, &class.status).await?;
    }
    for gateway in gateways {
        write(&namespaced::<Gateway>(client, &gateway.metadata), &gateway.metadata, &gateway.status).await?;
    }
    for set in listener_sets {
        write(&namespaced::<ListenerSet>(client, &set.metadata), &set.metadata, &set.status).await?;
    }
    for policy in policies {
        let api = namespaced::<BackendTLSPolicy>(client, &policy.metadata);
        write(&api, &policy.metadata, &policy.status).await?;
    }
    for route in routes {
        write(&namespaced::<HTTPRoute>(client, &route.metadata), &route.metadata, &route.status).await?;
    }
    for pool in pools {
        write(&namespaced::<InferencePool>(client, &pool.metadata), &pool.metadata, &pool.status).await?;
    }
    Ok(())
}

fn now() -> Timestamp {
    // Conditions have times in whole seconds.
    let now = Timestamp::now();
    Timestamp::from_second(now.as_second()).unwrap_or(now)
}

fn namespaced<K>(client: &Client, metadata: &ObjectMeta) -> Api<K>
where
    K: Resource<Scope = NamespaceResourceScope, DynamicType: Default>,
{
    Api::namespaced(client.clone(), metadata.namespace.as_deref().unwrap_or_default())
}

/// Writes a status that was computed from this version of the object. If the object has changed or is gone, its own watch
/// event triggers the next computation.
async fn write<K>(api: &Api<K>, metadata: &ObjectMeta, status: &impl Serialize) -> Result<(), kube::Error>
where
    K: Metadata<Ty = ObjectMeta> + Clone + Debug + DeserializeOwned,
{
    let mut body = json!({"metadata": {"resourceVersion": metadata.resource_version}, "status": status});
    for field in OPTIONAL_FIELDS {
        if body["status"][field].is_null() {
            body["status"][field] = serde_json::Value::Null;
        }
    }
    let name = metadata.name.as_deref().unwrap_or_default();
    match api.patch_status(name, &PatchParams::default(), &Patch::Merge(body)).await {
        Ok(_) => Ok(()),
        Err(kube::Error::Api(error)) if matches!(error.code, 404 | 409) => Ok(()),
        Err(error) => Err(error),
    }
}
