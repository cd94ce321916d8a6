//! The Table form of objects, which `kubectl get` prints.

mod core;
mod custom;
mod duration;
mod jsonpath;
mod other;
mod pods;
mod printer;
mod workloads;

pub(crate) use core::{
    CLAIM, CONFIG_MAP, ENDPOINTS, EVENT, NAMESPACE, NODE, POD_TEMPLATE, QUOTA, SECRET, SERVICE,
    SERVICE_ACCOUNT, VOLUME,
};
pub(crate) use other::{
    API_SERVICE, DISRUPTION_BUDGET, ENDPOINT_SLICE, INGRESS, INGRESS_CLASS, LEASE, NETWORK_POLICY,
    PRIORITY_CLASS, RESOURCE_CLAIM, ROLE_BINDING, STORAGE_CLASS, WEBHOOKS,
};
pub(crate) use pods::POD;
pub(crate) use workloads::{
    AUTOSCALER, CONTROLLER_REVISION, CRON_JOB, DAEMON_SET, DEPLOYMENT, JOB, REPLICA_SET,
    REPLICATION_CONTROLLER, STATEFUL_SET,
};

use jiff::Timestamp;
use serde_json::{Value, json};

use crate::{
    form::{self, RequestedObject},
    kinds::Resource,
};
use printer::{AGE, Column, NAME, Printer, age, column, name, printer};

/// Renders one object as a table.
pub(crate) fn render_one(
    resource: &Resource,
    shown: &RequestedObject,
    include: Include,
    version: &str,
) -> Value {
    let metadata = json!({"resourceVersion": shown.value()["metadata"]["resourceVersion"]});
    render(resource, std::slice::from_ref(shown), include, version, &metadata)
}

/// The part of the object that a row includes beside its cells.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Include {
    Nothing,
    Metadata,
    Object,
}

/// The printer of kinds with only a name and an age.
pub(crate) const AGED: Printer = printer!(|o, now| NAME => name(o), AGE => age(o, now),);

/// The printer of kinds for which kube-apiserver has no printer.
pub(crate) const CREATED: Printer =
    Printer::new(&[NAME, Column("Created At", "date", "", false)], |object, _| {
        vec![name(object), object["metadata"]["creationTimestamp"].clone()]
    });

/// How `kubectl get` prints a built-in kind.
fn printer_of(resource: &Resource) -> &'static Printer {
    match resource.kind.as_str() {
        _ if resource.custom().is_some() => &CREATED,
        "APIService" => &API_SERVICE,
        "ClusterRoleBinding" | "RoleBinding" => &ROLE_BINDING,
        "ConfigMap" => &CONFIG_MAP,
        "ControllerRevision" => &CONTROLLER_REVISION,
        "CronJob" => &CRON_JOB,
        "DaemonSet" => &DAEMON_SET,
        "Deployment" => &DEPLOYMENT,
        "EndpointSlice" => &ENDPOINT_SLICE,
        "Endpoints" => &ENDPOINTS,
        "Event" => &EVENT,
        "HorizontalPodAutoscaler" => &AUTOSCALER,
        "Ingress" => &INGRESS,
        "IngressClass" => &INGRESS_CLASS,
        "Job" => &JOB,
        "Lease" => &LEASE,
        "MutatingWebhookConfiguration" | "ValidatingWebhookConfiguration" => &WEBHOOKS,
        "Namespace" => &NAMESPACE,
        "NetworkPolicy" => &NETWORK_POLICY,
        "Node" => &NODE,
        "PersistentVolume" => &VOLUME,
        "PersistentVolumeClaim" => &CLAIM,
        "Pod" => &POD,
        "PodDisruptionBudget" => &DISRUPTION_BUDGET,
        "PodTemplate" => &POD_TEMPLATE,
        "PriorityClass" => &PRIORITY_CLASS,
        "ReplicaSet" => &REPLICA_SET,
        "ReplicationController" => &REPLICATION_CONTROLLER,
        "ResourceClaim" => &RESOURCE_CLAIM,
        "ResourceQuota" => &QUOTA,
        "Secret" => &SECRET,
        "Service" => &SERVICE,
        "ServiceAccount" => &SERVICE_ACCOUNT,
        "StatefulSet" => &STATEFUL_SET,
        "StorageClass" => &STORAGE_CLASS,
        "ClusterRole" | "CustomResourceDefinition" | "LimitRange" | "Role" => &CREATED,
        _ => &AGED,
    }
}

/// Renders objects as a table in this version of meta.k8s.io.
pub(crate) fn render(
    resource: &Resource,
    items: &[RequestedObject],
    include: Include,
    version: &str,
    metadata: &Value,
) -> Value {
    let now = Timestamp::now();
    let printer = printer_of(resource);
    let columns: Vec<Value> = match resource.custom() {
        Some(custom) => custom::columns(custom),
        None => printer
            .columns
            .iter()
            .map(|Column(name, kind, format, wide)| column(name, kind, format, "", i64::from(*wide)))
            .collect(),
    };
    let cells = |item: &RequestedObject| match resource.custom() {
        Some(custom) => custom::cells(custom, item.value(), now),
        // printers expect the stored version of an object
        None => (printer.cells)(&hub(resource, item.value()), now),
    };
    let readers = items.iter().map(RequestedObject::for_reader);
    let mut rows = readers.map(|item| row(printer, &item, &cells(&item), include)).peekable();
    // for kinds without a printer, kube-apiserver writes an empty list of rows as null
    let plain = columns.len() == 2 && columns[1]["name"] == "Created At";
    let rows = if plain && rows.peek().is_none() { Value::Null } else { rows.collect() };
    json!({"kind": "Table", "apiVersion": format!("meta.k8s.io/{version}"), "metadata": metadata,
        "columnDefinitions": columns, "rows": rows})
}

fn hub(resource: &Resource, value: &Value) -> Value {
    crate::kinds::views::to_hub(resource, value.clone())
}

fn row(printer: &Printer, item: &RequestedObject, cells: &[Value], include: Include) -> Value {
    let mut row = json!({"cells": cells});
    if let Some((reason, message)) = printer.finished.and_then(|finished| finished(item.value())) {
        row["conditions"] =
            json!([{"type": "Completed", "status": "True", "reason": reason, "message": message}]);
    }
    row["object"] = match include {
        Include::Nothing => Value::Null,
        Include::Metadata => form::partial(item.value(), "v1"),
        Include::Object => item.value().clone(),
    };
    row
}
