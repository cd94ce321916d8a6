//! Follows a problem to its first cause. There is one file per kind of object on the way.

pub(crate) mod absent;
pub(crate) mod composition;
pub(crate) mod gateways;
pub(crate) mod pods;
pub(crate) mod pools;
pub(crate) mod proof;
pub(crate) mod routes;
pub(crate) mod scaling;
pub(crate) mod serving;
pub(crate) mod workloads;

use k8s_openapi::apimachinery::pkg::apis::meta::v1::Condition;

/// The condition of that type.
fn condition<'a>(conditions: &'a [Condition], type_: &str) -> Option<&'a Condition> {
    conditions.iter().find(|condition| condition.type_ == type_)
}

/// The text of a condition that does not hold: its reason, then its message.
fn reason_and_message(condition: &Condition) -> String {
    if condition.message.is_empty() {
        condition.reason.clone()
    } else {
        format!("{}: {}", condition.reason, condition.message)
    }
}
