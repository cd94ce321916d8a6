//! `…/<name>/scale`: the replicas of any scalable object, as an autoscaling/v1 Scale.

use serde_json::{Value, json};

use super::{
    Call,
    update::{self, Change},
};
use crate::{
    answer::Answer,
    form,
    kinds::{Resource, ScalePaths},
    patching,
    request::query::FieldValidation,
    respond,
    status::{ApiError, Cause, StatusDetails},
    strategy,
};

/// `GET …/scale`.
pub(crate) async fn get(call: &Call<'_>) -> Result<Answer, ApiError> {
    let shown = form::show(call.state, &call.resource, call.stored()?).await?;
    check_replicas(&call.resource, shown.value())?;
    Ok(respond::document(call.request, 200, &scale_of(&call.resource, shown.value())))
}

/// `PUT …/scale`.
pub(crate) async fn replace(call: &mut Call<'_>) -> Result<Answer, ApiError> {
    let dry_run = call.request.query.dry_run("UpdateOptions")?;
    let document = super::incoming::document(call, &scale_resource(&call.resource))?;
    let mut scale = document.value;
    let kind = scale["kind"].as_str().unwrap_or("Scale");
    if kind != "Scale" {
        return Err(ApiError::bad_request(format!(
            "{kind} in version \"v1\" cannot be handled as a Scale: no such conversion"
        )));
    }
    let name = call.path.name.clone().unwrap_or_default();
    let given = scale["metadata"]["name"].as_str().unwrap_or_default().to_owned();
    if given.is_empty() {
        return Err(ApiError::bad_request(format!(
            "the name of the object ({name} based on URL) was undeterminable: name must be provided"
        )));
    }
    if given != name {
        return Err(ApiError::bad_request(format!(
            "the name of the object ({given}) does not match the name on the URL ({name})"
        )));
    }
    if scale["spec"].is_null() {
        scale["spec"] = json!({});
    }
    write(call, scale, false, dry_run).await
}

/// `PATCH …/scale`.
pub(crate) async fn patch(call: &mut Call<'_>) -> Result<Answer, ApiError> {
    let kind = update::patch_kind(call)?;
    let dry_run = call.request.query.dry_run("PatchOptions")?;
    update::check_patch_options(call, kind)?;
    let parent = form::show(call.state, &call.resource, call.stored()?).await?;
    let live = scale_of(&call.resource, parent.value());
    let manager = call.request.field_manager();
    let resource = scale_resource(&call.resource);
    let write_options = patching::Write {
        registry: &call.state.registry,
        resource: &resource,
        subresource: Some("scale"),
        manager: &manager,
        force: call.request.query.flag("force"),
        now: jiff::Timestamp::now(),
    };
    let applies = kind == patching::PatchKind::Apply;
    let patched = if applies {
        patching::apply_scale(&write_options, &call.resource, &call.request.body, parent.value(), &live)?
    } else {
        patching::patch(&write_options, kind, &call.request.body, Some(&live))?
    };
    check_patched(call, &patched.object, &patched.shown)?;
    write(call, patched.object, applies, dry_run).await
}

/// Checks that a patch has left a readable Scale. Reports fields that a Scale does not have.
fn check_patched(call: &mut Call<'_>, scale: &Value, shown: &str) -> Result<(), ApiError> {
    let replicas = &scale["spec"]["replicas"];
    if !replicas.is_null() && replicas.as_i64().is_none_or(|replicas| i32::try_from(replicas).is_err()) {
        let what = match replicas {
            Value::Number(number) => format!("number {number}"),
            other => longboat_schema::go_type(other).to_owned(),
        };
        return Err(update::refuse_patch(
            shown,
            &format!(
                "json: cannot unmarshal {what} into Go struct field ScaleSpec.spec.replicas of type int32"
            ),
        ));
    }
    let problems: Vec<String> = scale["spec"]
        .as_object()
        .into_iter()
        .flatten()
        .filter(|(field, _)| *field != "replicas")
        .map(|(field, _)| format!("unknown field \"spec.{field}\""))
        .collect();
    let validation = FieldValidation::of(&call.request.query, "PatchOptions")?;
    validation.report(problems, &mut call.warnings).map_err(|why| update::refuse_patch(shown, &why))
}

/// Writes the replicas of a Scale to its object. After an apply (`applied`), the Scale carries the `managedFields` of the
/// object.
async fn write(call: &mut Call<'_>, scale: Value, applied: bool, dry_run: bool) -> Result<Answer, ApiError> {
    let name = call.path.name.clone().unwrap_or_default();
    let replicas = &scale["spec"]["replicas"];
    if let Some(replicas) = replicas.as_i64().filter(|r| *r < 0 && call.resource.custom().is_none()) {
        let about = StatusDetails { group: "autoscaling", kind: "Scale", name: &name };
        return Err(ApiError::invalid(
            about,
            &[Cause::invalid("spec.replicas", &Value::from(replicas), "must be greater than or equal to 0")],
        ));
    }
    let uid = scale["metadata"]["uid"].as_str().unwrap_or_default();
    let stored = call.stored()?;
    let stored_uid = stored.value["metadata"]["uid"].as_str().unwrap_or_default();
    if !uid.is_empty() && uid != stored_uid {
        let resource = format!("{}/scale", call.resource.plural);
        return Err(ApiError::conflict(
            StatusDetails { kind: &resource, ..call.resource.about(&name) },
            format!("Precondition failed: UID in precondition: {uid}, UID in object meta: {stored_uid}"),
        ));
    }
    let paths = paths(&call.resource);
    let input = json!({
        "path": paths.spec_replicas,
        "replicas": replicas.as_i64().unwrap_or(0),
        "resourceVersion": scale["metadata"]["resourceVersion"],
        "applied": applied,
        "managedFields": scale["metadata"]["managedFields"],
    });
    let edit = |value: &mut Value, input: &Value| {
        set(value, input["path"].as_str().unwrap_or_default(), input["replicas"].clone());
        if let Some(revision) = input["resourceVersion"].as_str().filter(|r| !r.is_empty() && *r != "0") {
            value["metadata"]["resourceVersion"] = Value::from(revision);
        }
        if input["applied"] == true {
            value["metadata"]["managedFields"] = input["managedFields"].clone();
        }
        Ok(())
    };
    update::change(call, Some("scale"), &Change::Edit(edit, input), dry_run)
        .await
        .map(|(_, shown)| respond::document(call.request, 200, &scale_of(&call.resource, shown.value())))
}

/// Refuses to read the Scale of a custom object without replicas.
fn check_replicas(resource: &Resource, object: &Value) -> Result<(), ApiError> {
    match resource.custom().and_then(|custom| custom.scale.as_ref()) {
        Some(paths) if at(object, &paths.spec_replicas).is_null() => Err(ApiError::internal(format!(
            "the spec replicas field \".{}\" does not exist",
            paths.spec_replicas
        ))),
        _ => Ok(()),
    }
}

fn paths(resource: &Resource) -> ScalePaths {
    resource.custom().and_then(|c| c.scale.clone()).unwrap_or_else(|| ScalePaths {
        spec_replicas: "spec.replicas".to_owned(),
        status_replicas: "status.replicas".to_owned(),
        selector: None,
    })
}

/// Returns the Scale of an object.
pub(crate) fn scale_of(resource: &Resource, object: &Value) -> Value {
    let paths = paths(resource);
    let metadata = &object["metadata"];
    let mut shown = json!({});
    for key in ["name", "namespace", "uid", "resourceVersion", "creationTimestamp"] {
        if let Some(value) = metadata.get(key) {
            shown[key] = value.clone();
        }
    }
    let mut spec = json!({});
    if let Some(replicas) = at(object, &paths.spec_replicas).as_i64().filter(|r| *r != 0) {
        spec["replicas"] = Value::from(replicas);
    }
    let mut status = json!({"replicas": at(object, &paths.status_replicas).as_i64().unwrap_or(0)});
    let selector = match &paths.selector {
        Some(path) => at(object, path).as_str().unwrap_or_default().to_owned(),
        None if resource.custom().is_some() => String::new(),
        None => strategy::selector_text(&object["spec"]["selector"]),
    };
    if !selector.is_empty() {
        status["selector"] = Value::from(selector);
    }
    json!({"kind": "Scale", "apiVersion": "autoscaling/v1", "metadata": shown, "spec": spec, "status": status})
}

/// Returns the resource under the kind that the decoder of Scale bodies expects.
fn scale_resource(resource: &Resource) -> Resource {
    Resource { kind: "Scale".to_owned(), ..resource.clone() }
}

fn at<'a>(object: &'a Value, path: &str) -> &'a Value {
    path.split('.').fold(object, |value, key| &value[key])
}

fn set(object: &mut Value, path: &str, value: Value) {
    let mut at = object;
    for key in path.split('.') {
        if !at.is_object() {
            *at = json!({});
        }
        at = &mut at[key];
    }
    *at = value;
}
