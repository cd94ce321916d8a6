//! Schemas of fields that Rust types alone do not describe.
//!
//! `x-default` and `x-required` are Longboat's own marks. First a later step ([`crate::crd`]) removes what schemars says
//! about defaults and required fields, which follows Rust's types instead of the API. Then it turns the marks into
//! `default`, and into `required` of the parent.

use schemars::{Schema, SchemaGenerator, json_schema};
use serde_json::{Value, json};

use crate::cel;

const DNS_LABEL: &str = "^[a-z0-9]([-a-z0-9]*[a-z0-9])?$";
const DNS_SUBDOMAIN: &str = r"^[a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*$";
const HOSTNAME: &str = r"^(\*\.)?[a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*$";
const GROUP: &str = r"^$|^[a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*$";
const KIND: &str = "^[a-zA-Z]([-a-zA-Z0-9]*[a-zA-Z0-9])?$";
const HEADER_NAME: &str = r"^[A-Za-z0-9!#$%&'*+\-.^_\x60|~]+$";
const CONTROLLER: &str =
    r"^[a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*\/[A-Za-z0-9\/\-._~%!$&'()*+,;=:]+$";
const LABEL_VALUE: &str = "^(([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9])?$";
const ADDRESS_TYPE: &str = r"^Hostname|IPAddress|NamedAddress|[a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*\/[A-Za-z0-9\/\-._~%!$&'()*+,;=:]+$";
const PROTOCOL: &str = r"^[a-zA-Z0-9]([-a-zA-Z0-9]*[a-zA-Z0-9])?$|[a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*\/[A-Za-z0-9]+$";

fn text(pattern: &str, min: u32, max: u32) -> Schema {
    json_schema!({"type": "string", "pattern": pattern, "minLength": min, "maxLength": max})
}

fn list(items: &Value, kind: &str, max: u32) -> Schema {
    json_schema!({"type": "array", "items": items, "x-kubernetes-list-type": kind, "maxItems": max})
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

/// An integer of unspecified width.
pub(crate) fn integer(_: &mut SchemaGenerator) -> Schema {
    json_schema!({"type": "integer"})
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

/// An API group, where the inference extension spells out that it may be empty.
pub(crate) fn group_min0(_: &mut SchemaGenerator) -> Schema {
    text(GROUP, 0, 253)
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

/// A host name that may start with a wildcard.
pub(crate) fn hostname(_: &mut SchemaGenerator) -> Schema {
    text(HOSTNAME, 1, 253)
}

/// A host name without wildcard.
pub(crate) fn precise_hostname(_: &mut SchemaGenerator) -> Schema {
    text(DNS_SUBDOMAIN, 1, 253)
}

/// Host names of a route.
pub(crate) fn hostnames(_: &mut SchemaGenerator) -> Schema {
    list(&json!({"type": "string", "pattern": HOSTNAME, "minLength": 1, "maxLength": 253}), "atomic", 16)
}

/// Name of a header or query parameter.
pub(crate) fn header_name(_: &mut SchemaGenerator) -> Schema {
    text(HEADER_NAME, 1, 256)
}

/// A duration as the Gateway API writes it.
pub(crate) fn duration(_: &mut SchemaGenerator) -> Schema {
    json_schema!({"type": "string", "pattern": "^([0-9]{1,5}(h|m|s|ms)){1,4}$"})
}

/// Status of a redirect.
pub(crate) fn redirect_status(_: &mut SchemaGenerator) -> Schema {
    json_schema!({"type": "integer", "enum": [301, 302, 303, 307, 308]})
}

/// Status codes to try again on.
pub(crate) fn retry_codes(_: &mut SchemaGenerator) -> Schema {
    let code = json!({"type": "integer", "minimum": 400, "maximum": 599});
    json_schema!({"type": "array", "items": code, "x-kubernetes-list-type": "atomic"})
}

/// Name of a controller: a domain and a path.
pub(crate) fn controller_name(_: &mut SchemaGenerator) -> Schema {
    text(CONTROLLER, 1, 253)
}

/// Name of a controller that cannot change.
pub(crate) fn controller_name_immutable(generator: &mut SchemaGenerator) -> Schema {
    let mut schema = controller_name(generator);
    schema.insert("x-kubernetes-validations".to_owned(), cel::immutable());
    schema
}

/// Rules of a route.
pub(crate) fn route_rules(generator: &mut SchemaGenerator) -> Schema {
    let rule = generator.subschema_for::<crate::foreign::httproute::HTTPRouteRule>().to_value();
    let mut schema = list(&rule, "atomic", 16);
    schema.insert("minItems".to_owned(), 1.into());
    schema.insert("x-kubernetes-validations".to_owned(), cel::route_rules());
    schema
}

/// Filters of a route.
pub(crate) fn route_filters(generator: &mut SchemaGenerator) -> Schema {
    let filter = generator.subschema_for::<crate::foreign::httproute_filter::HTTPRouteFilter>().to_value();
    let mut schema = list(&filter, "atomic", 16);
    schema.insert("x-kubernetes-validations".to_owned(), cel::route_filters());
    schema
}

/// Origins of a CORS filter.
pub(crate) fn cors_origins(_: &mut SchemaGenerator) -> Schema {
    let origin = json!({
        "type": "string", "minLength": 1, "maxLength": 253,
        "pattern": r"(^\*$)|(^(http(s)?):\/\/(((\*\.)?([a-zA-Z0-9\-]+\.)*[a-zA-Z0-9-]+|\*)(:([0-9]{1,5}))?)$)",
    });
    let mut schema = list(&origin, "set", 64);
    schema.insert("x-kubernetes-validations".to_owned(), cel::cors_list("AllowOrigins", "origins"));
    schema
}

/// Methods of a CORS filter.
pub(crate) fn cors_methods(_: &mut SchemaGenerator) -> Schema {
    let method = json!({
        "type": "string",
        "enum": ["GET", "HEAD", "POST", "PUT", "DELETE", "CONNECT", "OPTIONS", "TRACE", "PATCH", "*"],
    });
    let mut schema = list(&method, "set", 9);
    schema.insert("x-kubernetes-validations".to_owned(), cel::cors_list("AllowMethods", "methods"));
    schema
}

fn header_names() -> Schema {
    list(&json!({"type": "string", "pattern": HEADER_NAME, "minLength": 1, "maxLength": 256}), "set", 64)
}

/// Request headers of a CORS filter.
pub(crate) fn cors_allow_headers(_: &mut SchemaGenerator) -> Schema {
    let mut schema = header_names();
    schema.insert("x-kubernetes-validations".to_owned(), cel::cors_list("AllowHeaders", "methods"));
    schema
}

/// Response headers of a CORS filter.
pub(crate) fn cors_expose_headers(_: &mut SchemaGenerator) -> Schema {
    header_names()
}

fn label_values(min: u32, max: u32) -> Schema {
    let value = json!({"type": "string", "pattern": LABEL_VALUE, "minLength": 0, "maxLength": 63});
    json_schema!({"type": "object", "additionalProperties": value, "minProperties": min, "maxProperties": max})
}

/// Labels that select the pods of a pool.
pub(crate) fn match_labels(_: &mut SchemaGenerator) -> Schema {
    label_values(1, 64)
}

/// Labels that select the pods of an older pool.
pub(crate) fn flat_selector(_: &mut SchemaGenerator) -> Schema {
    let value = json!({"type": "string", "pattern": LABEL_VALUE, "minLength": 0, "maxLength": 63});
    json_schema!({"type": "object", "additionalProperties": value})
}

/// Labels that select the pods of an older pool, within a service.
pub(crate) fn plain_selector(_: &mut SchemaGenerator) -> Schema {
    json_schema!({"type": "object", "additionalProperties": {"type": "string", "minLength": 0, "maxLength": 63}})
}

/// Ports of a pool.
pub(crate) fn target_ports(generator: &mut SchemaGenerator) -> Schema {
    let port = generator.subschema_for::<crate::foreign::inferencepool::PoolPort>().to_value();
    let mut schema = list(&port, "atomic", 8);
    schema.insert("minItems".to_owned(), 1.into());
    schema.insert("x-kubernetes-validations".to_owned(), cel::target_ports());
    schema
}

/// Listeners of a Gateway.
pub(crate) fn listeners(generator: &mut SchemaGenerator) -> Schema {
    let listener = generator.subschema_for::<crate::foreign::gateway::Listener>().to_value();
    let mut schema = list(&listener, "map", 64);
    schema.insert("x-kubernetes-list-map-keys".to_owned(), json!(["name"]));
    schema.insert("minItems".to_owned(), 1.into());
    schema.insert("x-kubernetes-validations".to_owned(), cel::listeners());
    schema
}

/// Protocol of a listener.
pub(crate) fn protocol(_: &mut SchemaGenerator) -> Schema {
    text(PROTOCOL, 1, 255)
}

/// Type of an address.
pub(crate) fn address_type(_: &mut SchemaGenerator) -> Schema {
    text(ADDRESS_TYPE, 1, 253)
}

/// Requires a valid IP address only if the type of the address is `IPAddress`.
fn ip_address(item: Value) -> Value {
    let mut item = item;
    item["oneOf"] = json!([
        {"properties": {"type": {"enum": ["IPAddress"]}, "value": {"anyOf": [{"format": "ipv4"}, {"format": "ipv6"}]}}},
        {"properties": {"type": {"not": {"enum": ["IPAddress"]}}}},
    ]);
    item
}

/// Addresses a Gateway asks for.
pub(crate) fn gateway_addresses(generator: &mut SchemaGenerator) -> Schema {
    let item = generator.subschema_for::<crate::foreign::gateway::GatewayAddress>().to_value();
    let mut schema = list(&ip_address(item), "atomic", 16);
    schema.insert("x-kubernetes-validations".to_owned(), cel::gateway_addresses());
    schema
}

/// Addresses a Gateway has.
pub(crate) fn gateway_status_addresses(generator: &mut SchemaGenerator) -> Schema {
    let item = generator.subschema_for::<crate::foreign::gateway::GatewayStatusAddress>().to_value();
    list(&ip_address(item), "atomic", 16)
}

/// Settings of a listener's TLS implementation.
pub(crate) fn tls_options(_: &mut SchemaGenerator) -> Schema {
    let value = json!({"type": "string", "minLength": 0, "maxLength": 4096});
    json_schema!({"type": "object", "additionalProperties": value, "maxProperties": 16})
}

/// Labels for what runs a Gateway.
pub(crate) fn infrastructure_labels(_: &mut SchemaGenerator) -> Schema {
    let value = json!({"type": "string", "pattern": LABEL_VALUE, "minLength": 0, "maxLength": 63});
    json_schema!({
        "type": "object", "additionalProperties": value, "maxProperties": 8,
        "x-kubernetes-validations": cel::qualified_keys("label"),
    })
}

/// Annotations for what runs a Gateway.
pub(crate) fn infrastructure_annotations(_: &mut SchemaGenerator) -> Schema {
    let value = json!({"type": "string", "minLength": 0, "maxLength": 4096});
    json_schema!({
        "type": "object", "additionalProperties": value, "maxProperties": 8,
        "x-kubernetes-validations": cel::qualified_keys("annotation"),
    })
}

/// TLS settings of single ports.
pub(crate) fn frontend_tls_ports(generator: &mut SchemaGenerator) -> Schema {
    let port = generator.subschema_for::<crate::foreign::gateway::PortFrontendTls>().to_value();
    let mut schema = list(&port, "map", 64);
    schema.insert("x-kubernetes-list-map-keys".to_owned(), json!(["port"]));
    schema.insert("x-kubernetes-validations".to_owned(), cel::frontend_tls_ports());
    schema
}

fn pending(types: &[&str]) -> Value {
    types
        .iter()
        .map(|kind| {
            json!({
                "lastTransitionTime": "1970-01-01T00:00:00Z", "message": "Waiting for controller",
                "reason": "Pending", "status": "Unknown", "type": kind,
            })
        })
        .collect()
}

/// Conditions of a Gateway that no controller has accepted or refused yet.
pub(crate) fn pending_gateway() -> Value {
    pending(&["Accepted", "Programmed"])
}

/// Conditions of a GatewayClass that no controller has accepted or refused yet.
pub(crate) fn pending_gatewayclass() -> Value {
    pending(&["Accepted"])
}

/// Conditions of an older InferencePool that no controller has accepted or refused yet.
pub(crate) fn pending_pool() -> Value {
    pending(&["Accepted"])
}
