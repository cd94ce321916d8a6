//! Schemas of fields that Rust types alone do not describe.
//!
//! `x-default` and `x-required` are Longboat's own marks. First a later step ([`crate::crd`]) removes what schemars says
//! about defaults and required fields, which follows Rust's types instead of the API. Then it turns the marks into
//! `default`, and into `required` of the parent.

use schemars::{Schema, SchemaGenerator, json_schema};
use serde_json::json;

const DNS_LABEL: &str = "^[a-z0-9]([-a-z0-9]*[a-z0-9])?$";
const DNS_SUBDOMAIN: &str = r"^[a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*$";
const GROUP: &str = r"^$|^[a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*$";
const KIND: &str = "^[a-zA-Z]([-a-zA-Z0-9]*[a-zA-Z0-9])?$";

fn text(pattern: &str, min: u32, max: u32) -> Schema {
    json_schema!({"type": "string", "pattern": pattern, "minLength": min, "maxLength": max})
}

/// Any string.
pub(crate) fn string(_: &mut SchemaGenerator) -> Schema {
    json_schema!({"type": "string"})
}

/// Any value at all.
pub(crate) fn any(_: &mut SchemaGenerator) -> Schema {
    json_schema!({"x-kubernetes-preserve-unknown-fields": true})
}

/// Any object.
pub(crate) fn any_object(_: &mut SchemaGenerator) -> Schema {
    json_schema!({"type": "object", "x-kubernetes-preserve-unknown-fields": true})
}

/// Name of an object.
pub(crate) fn object_name(_: &mut SchemaGenerator) -> Schema {
    json_schema!({"type": "string", "minLength": 1, "maxLength": 253})
}

/// Name of a namespace.
pub(crate) fn namespace(_: &mut SchemaGenerator) -> Schema {
    text(DNS_LABEL, 1, 63)
}

/// Name of a listener or rule.
pub(crate) fn section_name(_: &mut SchemaGenerator) -> Schema {
    text(DNS_SUBDOMAIN, 1, 253)
}

/// Names of listeners.
pub(crate) fn listener_names(_: &mut SchemaGenerator) -> Schema {
    let item = json!({"type": "string", "pattern": DNS_SUBDOMAIN, "minLength": 1, "maxLength": 253});
    json_schema!({"type": "array", "items": item, "x-kubernetes-list-type": "atomic"})
}

/// An API group.
pub(crate) fn group(_: &mut SchemaGenerator) -> Schema {
    json_schema!({"type": "string", "pattern": GROUP, "maxLength": 253})
}

/// A kind.
pub(crate) fn kind(_: &mut SchemaGenerator) -> Schema {
    text(KIND, 1, 63)
}

/// Name of a routing group.
pub(crate) fn routing_group(_: &mut SchemaGenerator) -> Schema {
    text("^[a-z0-9]([a-z0-9-]*[a-z0-9])?$", 1, 63)
}

/// A port.
pub(crate) fn port(_: &mut SchemaGenerator) -> Schema {
    json_schema!({"type": "integer", "format": "int32", "minimum": 1, "maximum": 65535})
}

/// Labels that select the pods of an older pool, within a service.
pub(crate) fn plain_selector(_: &mut SchemaGenerator) -> Schema {
    json_schema!({"type": "object", "additionalProperties": {"type": "string", "minLength": 0, "maxLength": 63}})
}
