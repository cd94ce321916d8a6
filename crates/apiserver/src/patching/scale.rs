//! Server-side apply to `…/scale`: the object's `managedFields` record the owner of the replicas, and the Scale shows them.

use longboat_patch::{fields::Path, managed, schema::Node};
use longboat_types::type_of_kind;
use serde_json::{Value, json};

use crate::{clock, kinds::Resource, status::ApiError};

use super::{PatchOutcome, Write, body, refusal};

/// The only version of a Scale.
struct ScaleOnly;

const API_VERSION: &str = "autoscaling/v1";

impl managed::Versions for ScaleOnly {
    fn schema(&self, api_version: &str) -> Option<Node<'_>> {
        if api_version == API_VERSION { type_of_kind(API_VERSION, "Scale").map(Node::Type) } else { None }
    }

    fn convert(&self, object: &Value, _: &str) -> Result<Value, String> {
        Ok(object.clone())
    }
}

/// Applies a body to the Scale of `parent`. The resulting Scale carries the new `managedFields` of `parent`.
pub(crate) fn apply_scale(
    write: &Write<'_>,
    resource: &Resource,
    body: &[u8],
    parent: &Value,
    scale: &Value,
) -> Result<PatchOutcome, ApiError> {
    let document = body::apply_patch(body)?;
    let replicas = |api_version: &str| {
        let other;
        let of_version = if api_version == resource.api_version() {
            resource
        } else {
            other = write.registry.find_kind(api_version, &resource.kind)?;
            &other
        };
        let paths = of_version.custom().and_then(|custom| custom.scale.as_ref());
        let path = paths.map_or("spec.replicas", |paths| &paths.spec_replicas);
        Some(Path::of_fields(&path.split('.').collect::<Vec<_>>()))
    };
    let mut live = managed::without_entries(scale);
    let entries = managed::scale_to_subresource(parent, &replicas);
    if !entries.is_null() {
        live["metadata"]["managedFields"] = entries;
    }
    let now = clock::seconds(write.now);
    let options = managed::Write {
        api_version: API_VERSION,
        kind: "Scale",
        manager: write.manager,
        subresource: "scale",
        force: write.force,
        now: &now,
        ignored: None,
    };
    let mut object = managed::apply(&options, &ScaleOnly, Some(&live), &document.value).map_err(refusal)?;
    let mut owner = parent.clone();
    managed::scale_to_parent(&mut owner, &resource.api_version(), &object, &replicas);
    let entries = owner["metadata"].get("managedFields").cloned().unwrap_or_else(|| json!([]));
    object["metadata"]["managedFields"] = entries;
    Ok(super::patched(object, document.duplicates, String::from_utf8_lossy(body).into_owned()))
}
