//! Writes statuses.

use k8s_openapi::{
    apimachinery::pkg::apis::meta::v1::{ObjectMeta, Time},
    jiff::Timestamp,
};
use kube::{
    Client, Resource,
    api::{Patch, PatchParams},
};
use longboat_api::foreign::{
    backendtlspolicy::BackendTLSPolicy, gateway::Gateway, gatewayclass::GatewayClass, httproute::HTTPRoute,
    inferencepool::InferencePool, listenerset::ListenerSet,
};
use longboat_key::Namespace;
use longboat_watch::Selection;
use serde::Serialize;
use serde_json::json;

use crate::{
    RoutingInputs,
    resolved::Resolved,
    status::{self, Updates},
};

/// The manager of the fields that a gateway writes.
pub(crate) const SENDER: &str = "longboat-gateway";

/// The fields of statuses that are omitted if they are empty. A merge patch has to name them to remove them.
const OPTIONAL_FIELDS: [&str; 4] = ["addresses", "attachedListenerSets", "listeners", "parents"];

/// Writes every status that differs from the current one.
pub(crate) async fn report(
    client: &Client,
    observed: &RoutingInputs,
    resolved: &Resolved,
) -> Result<(), kube::Error> {
    let Updates { classes, gateways, listener_sets, routes, pools, policies } =
        status::updates(observed, resolved, &Time(now()));
    for class in classes {
        write::<GatewayClass>(client, &class.metadata, &class.status).await?;
    }
    for gateway in gateways {
        write::<Gateway>(client, &gateway.metadata, &gateway.status).await?;
    }
    for set in listener_sets {
        write::<ListenerSet>(client, &set.metadata, &set.status).await?;
    }
    for policy in policies {
        write::<BackendTLSPolicy>(client, &policy.metadata, &policy.status).await?;
    }
    for route in routes {
        write::<HTTPRoute>(client, &route.metadata, &route.status).await?;
    }
    for pool in pools {
        write::<InferencePool>(client, &pool.metadata, &pool.status).await?;
    }
    Ok(())
}

fn now() -> Timestamp {
    // Conditions have times in whole seconds.
    let now = Timestamp::now();
    Timestamp::from_second(now.as_second()).unwrap_or(now)
}

/// Writes a status that was computed from this version of the object. If the object has changed or is gone, its own watch
/// event triggers the next computation.
async fn write<K: Resource<DynamicType = ()>>(
    client: &Client,
    metadata: &ObjectMeta,
    status: &impl Serialize,
) -> Result<(), kube::Error> {
    let mut body = json!({"metadata": {"resourceVersion": metadata.resource_version}, "status": status});
    for field in OPTIONAL_FIELDS {
        if body["status"][field].is_null() {
            body["status"][field] = serde_json::Value::Null;
        }
    }
    let name = metadata.name.as_deref().unwrap_or_default();
    let objects = Selection::of::<K>().within(metadata.namespace.as_deref().map(Namespace)).objects(client);
    match objects.patch_status(name, &PatchParams::default(), &Patch::Merge(body)).await {
        Ok(_) => Ok(()),
        Err(kube::Error::Api(error)) if matches!(error.code, 404 | 409) => Ok(()),
        Err(error) => Err(error),
    }
}
