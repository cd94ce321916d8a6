//! The installation as files: the part of `deploy/` that is generated.

use longboat_api::names::DEFAULT_SYSTEM_NAMESPACE;

pub use crate::file::{File, documents};
use crate::{InstallError, Values, kustomize};

/// The values for which `deploy/` has an overlay: its name, and the text of its `values.yaml`.
pub const OVERLAYS: [(&str, &str); 3] = [
    ("cert-manager", include_str!("../../../deploy/kustomize/overlays/cert-manager/values.yaml")),
    ("named-secrets", include_str!("../../../deploy/kustomize/overlays/named-secrets/values.yaml")),
    ("single-namespace", include_str!("../../../deploy/kustomize/overlays/single-namespace/values.yaml")),
];

/// Returns all generated files.
///
/// # Errors
///
/// [`InstallError`], which means a mistake in this build, or in the values of an overlay.
pub fn all() -> Result<Vec<File>, InstallError> {
    let mut files = kustomize::base(DEFAULT_SYSTEM_NAMESPACE)?;
    files.extend(kustomize::components(DEFAULT_SYSTEM_NAMESPACE)?);
    for (name, text) in OVERLAYS {
        let values = Values::read(&[(format!("overlays/{name}/values.yaml"), text.to_owned())], &[])?;
        files.extend(kustomize::overlay(name, DEFAULT_SYSTEM_NAMESPACE, &values)?);
    }
    let schema = serde_json::to_string_pretty(&Values::schema())?;
    files.push(File { path: "helm/longboat/values.schema.json".to_owned(), text: schema + "\n" });
    Ok(files)
}
