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

/// Writes every status that differs from the current one. One that the API server refuses does not keep the others from being written.
pub(crate) async fn report(
    client: &Client,
    observed: &RoutingInputs,
    resolved: &Resolved,
) -> Result<(), kube::Error> {
    let Updates { classes, gateways, listener_sets, routes, pools, policies } =
        status::updates(observed, resolved, &Time(now()));
    let mut writer = StatusWriter { client, refused: None };
    for class in classes {
        writer.write::<GatewayClass>(&class.metadata, &class.status).await?;
    }
    for gateway in gateways {
        writer.write::<Gateway>(&gateway.metadata, &gateway.status).await?;
    }
    for set in listener_sets {
        writer.write::<ListenerSet>(&set.metadata, &set.status).await?;
    }
    for policy in policies {
        writer.write::<BackendTLSPolicy>(&policy.metadata, &policy.status).await?;
    }
    for route in routes {
        writer.write::<HTTPRoute>(&route.metadata, &route.status).await?;
    }
    for pool in pools {
        writer.write::<InferencePool>(&pool.metadata, &pool.status).await?;
    }
    writer.refused.map_or(Ok(()), Err)
}

struct StatusWriter<'a> {
    client: &'a Client,
    /// Why the API server has refused a status: the first that it refused.
    refused: Option<kube::Error>,
}

fn now() -> Timestamp {
    // Conditions have times in whole seconds.
    let now = Timestamp::now();
    Timestamp::from_second(now.as_second()).unwrap_or(now)
}

// === impl StatusWriter ===

impl StatusWriter<'_> {
    /// Writes a status that was computed from this version of the object. If the object has changed or is gone, its own watch
    /// event triggers the next computation.
    async fn write<K: Resource<DynamicType = ()>>(
        &mut self,
        metadata: &ObjectMeta,
        status: &impl Serialize,
    ) -> Result<(), kube::Error> {
        let mut body = json!({"metadata": {"resourceVersion": metadata.resource_version}, "status": status});
        for field in OPTIONAL_FIELDS {
            // Reading an absent field gives `null`, too, and only writing it makes it a part of the patch.
            if body["status"][field].is_null() {
                body["status"][field] = serde_json::Value::Null;
            }
        }
        let name = metadata.name.as_deref().unwrap_or_default();
        let namespace = metadata.namespace.as_deref().map(Namespace);
        let objects = Selection::of::<K>().within(namespace).objects(self.client);
        match objects.patch_status(name, &PatchParams::default(), &Patch::Merge(body)).await {
            Ok(_) => {}
            Err(kube::Error::Api(error)) if matches!(error.code, 404 | 409) => {}
            // The cluster may have an older definition of this kind. Of a server that gives no answer, nothing else is asked.
            Err(error @ kube::Error::Api(_)) => {
                self.refused.get_or_insert(error);
            }
            Err(error) => return Err(error),
        }
        Ok(())
    }
}
