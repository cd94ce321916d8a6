//! The Table form of objects, which `kubectl get` prints.

mod core;
mod custom;
mod duration;
mod jsonpath;
mod other;
mod pods;
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

/// The part of the object that a row includes beside its cells.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Include {
    Nothing,
    Metadata,
    Object,
}

/// A column of a built-in kind: heading, type, format, and whether it only appears in wide output.
#[derive(Debug)]
struct Column(&'static str, &'static str, &'static str, bool);

/// A text column that always appears.
const fn text(name: &'static str) -> Column {
    Column(name, "string", "", false)
}

/// An integer column that always appears.
const fn integer(name: &'static str) -> Column {
    Column(name, "integer", "", false)
}

/// A boolean column that always appears.
const fn boolean(name: &'static str) -> Column {
    Column(name, "boolean", "", false)
}

/// A text column that only appears in wide output.
const fn wide(name: &'static str) -> Column {
    Column(name, "string", "", true)
}

const NAME: Column = Column("Name", "string", "name", false);
const AGE: Column = text("Age");

/// Returns the cells of an object's row at this time.
type Cells = fn(&Value, Timestamp) -> Vec<Value>;

/// Returns reason and message if the object has ended.
type EndReason = fn(&Value) -> Option<(&'static str, &'static str)>;

/// How a built-in kind is printed.
#[derive(Debug)]
pub(crate) struct Printer {
    columns: &'static [Column],
    cells: Cells,
    /// Says how an object has ended, for kinds whose rows show it.
    finished: Option<EndReason>,
}

/// Makes a printer of rows `column => cell`. What the cells have in common comes first, in braces.
macro_rules! printer {
    (|$object:ident, $now:ident| { $($common:tt)* } $($column:expr => $cell:expr,)+) => {
        $crate::tables::Printer::new(&[$($column),+], |$object, $now| {
            $($common)*
            vec![$(serde_json::Value::from($cell)),+]
        })
    };
    (|$object:ident, $now:ident| $($rows:tt)+) => {
        printer!(|$object, $now| {} $($rows)+)
    };
}
use printer;

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

/// Renders objects as a table. The caller adds `apiVersion` and `metadata`.
pub(crate) fn render(resource: &Resource, items: &[RequestedObject], include: Include) -> Value {
    let now = Timestamp::now();
    let printer = printer_of(resource);
    let (columns, cells): (Vec<Value>, Vec<Vec<Value>>) = if let Some(custom) = resource.custom() {
        (custom::columns(custom), items.iter().map(|item| custom::cells(custom, item.value(), now)).collect())
    } else {
        let columns = printer
            .columns
            .iter()
            .map(|Column(name, kind, format, wide)| column(name, kind, format, "", i64::from(*wide)))
            .collect();
        // printers expect the stored version of an object
        let cells = items.iter().map(|item| (printer.cells)(&hub(resource, item.value()), now)).collect();
        (columns, cells)
    };
    let mut rows =
        items.iter().zip(cells).map(|(item, cells)| row(printer, item, &cells, include)).peekable();
    // for kinds without a printer, kube-apiserver writes an empty list of rows as null
    let plain = columns.len() == 2 && columns[1]["name"] == "Created At";
    let rows = if plain && rows.peek().is_none() { Value::Null } else { rows.collect() };
    json!({"kind": "Table", "columnDefinitions": columns, "rows": rows})
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

fn column(name: &str, kind: &str, format: &str, description: &str, priority: i64) -> Value {
    json!({"name": name, "type": kind, "format": format, "description": description, "priority": priority})
}

// === impl Printer ===

impl Printer {
    const fn new(columns: &'static [Column], cells: Cells) -> Self {
        Self { columns, cells, finished: None }
    }
}

/// The object's name.
fn name(object: &Value) -> Value {
    object["metadata"]["name"].clone()
}

/// The time since the object was created.
fn age(object: &Value, now: Timestamp) -> Value {
    Value::from(since(&object["metadata"]["creationTimestamp"], now))
}

/// Returns the time since a timestamp in short form, or `<unknown>` without a timestamp.
fn since(time: &Value, now: Timestamp) -> String {
    match time.as_str().and_then(|t| t.parse::<Timestamp>().ok()) {
        None => "<unknown>".to_owned(),
        Some(then) => duration::short(now.as_second() - then.as_second()),
    }
}

/// Returns a text, or the placeholder if there is none.
fn or(value: &Value, placeholder: &str) -> Value {
    match value {
        Value::String(text) if !text.is_empty() => value.clone(),
        Value::Number(_) | Value::Bool(_) => Value::from(value.to_string()),
        _ => Value::from(placeholder),
    }
}

fn number(value: &Value) -> i64 {
    value.as_i64().unwrap_or(0)
}

fn list(value: &Value) -> impl Iterator<Item = &Value> {
    value.as_array().into_iter().flatten()
}

/// Formats labels or a map selector as `a=b,c=d`.
fn labels(map: &Value) -> Value {
    let parts: Vec<String> = map
        .as_object()
        .into_iter()
        .flatten()
        .map(|(key, value)| format!("{key}={}", value.as_str().unwrap_or_default()))
        .collect();
    Value::from(if parts.is_empty() { "<none>".to_owned() } else { parts.join(",") })
}

/// Formats a label selector object as text.
fn selector(selector: &Value) -> Value {
    let text = crate::strategy::selector_text(selector);
    Value::from(if text.is_empty() { "<none>".to_owned() } else { text })
}

/// Returns the names or images of the containers of a pod spec.
fn containers(spec: &Value, key: &str) -> Value {
    let all: Vec<&str> = list(&spec["containers"]).filter_map(|c| c[key].as_str()).collect();
    Value::from(all.join(","))
}

/// Joins the first three texts and says how many more there are.
fn shortened(all: &[String]) -> String {
    match all.len() {
        0 => "<none>".to_owned(),
        1..=3 => all.join(","),
        more => format!("{} + {} more...", all[..3].join(","), more - 3),
    }
}
