//! What only `v1alpha1` objects can get wrong.

use longboat_api::validation::{Cause, CauseKind, Report};
use serde_json::Value;

/// Refuses a pool without a picker: the schema lets it out, but the stored version cannot do without. The reference fills
/// in a picker without a name, which the schema then refuses (contract 01 §6.2).
pub(crate) fn check(object: &Value, report: &mut Report) {
    let Some(pool) = object.pointer("/spec/router/scheduler/pool/spec").filter(|pool| pool.is_object())
    else {
        return;
    };
    if pool["extensionRef"].is_null() {
        report.errors.push(Cause {
            kind: CauseKind::Required,
            field: "spec.router.scheduler.pool.spec.extensionRef".to_owned(),
            value: Value::Null,
            detail: "a pool needs the Service of its picker".to_owned(),
        });
    }
}
