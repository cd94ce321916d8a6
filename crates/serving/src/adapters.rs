//! `POST /v1/load_lora_adapter` and `POST /v1/unload_lora_adapter`.

use std::sync::Arc;

use axum::{Router, body::Body as Bytes, extract::State, http::Response, routing::post};
use serde::Deserialize;

use crate::{
    Adapter, Model, Refusal,
    body::{Body, object_only},
};

/// Whether the environment allows requests to load and unload adapters, by the variable of vLLM.
pub fn allows_lora_updates(variable: impl Fn(&str) -> Option<String>) -> bool {
    let value = variable("VLLM_ALLOW_RUNTIME_LORA_UPDATING");
    value.is_some_and(|text| matches!(text.to_lowercase().as_str(), "1" | "true"))
}

/// The fields of a request to load an adapter.
#[derive(Debug, Deserialize)]
#[serde(remote = "Self", expecting = "an object")]
struct LoadFields {
    lora_name: Option<String>,
    lora_path: Option<String>,
    #[serde(default)]
    load_inplace: bool,
}

/// The fields of a request to unload an adapter.
#[derive(Debug, Deserialize)]
#[serde(remote = "Self", expecting = "an object")]
struct UnloadFields {
    lora_name: Option<String>,
}

object_only!(LoadFields, UnloadFields);

pub(crate) fn routes() -> Router<Arc<dyn Model>> {
    Router::new().route("/v1/load_lora_adapter", post(load)).route("/v1/unload_lora_adapter", post(unload))
}

async fn load(
    State(model): State<Arc<dyn Model>>,
    Body(fields): Body<LoadFields>,
) -> Result<Response<Bytes>, Refusal> {
    let LoadFields { lora_name, lora_path, load_inplace } = fields;
    let (name, path) = (required("lora_name", lora_name)?, required("lora_path", lora_path)?);
    if name.is_empty() || path.is_empty() {
        return Err(Refusal::invalid_input("Both 'lora_name' and 'lora_path' must be provided."));
    }
    if model.card().names.contains(&name) {
        return Err(Refusal::invalid_input(format!(
            "The lora adapter '{name}' conflicts with a served base model."
        )));
    }
    if !load_inplace && model.adapters().iter().any(|known| known.name == name) {
        return Err(Refusal::invalid_input(format!(
            "The lora adapter '{name}' has already been loaded. If you want to load the adapter in place, set \
             'load_inplace' to True."
        )));
    }
    model.load_adapter(Adapter { name: name.clone(), path, base: None }, load_inplace).await?;
    Ok(success(format!("Success: LoRA adapter '{name}' added successfully.")))
}

async fn unload(
    State(model): State<Arc<dyn Model>>,
    Body(fields): Body<UnloadFields>,
) -> Result<Response<Bytes>, Refusal> {
    let name = required("lora_name", fields.lora_name)?;
    if name.is_empty() {
        return Err(Refusal::invalid_input("'lora_name' needs to be provided to unload a LoRA adapter."));
    }
    if !model.unload_adapter(&name) {
        return Err(Refusal::not_found(format!("The lora adapter '{name}' cannot be found.")));
    }
    Ok(success(format!("Success: LoRA adapter '{name}' removed successfully.")))
}

fn required(field: &str, value: Option<String>) -> Result<String, Refusal> {
    value.ok_or_else(|| Refusal::invalid(field, format!("{field}: Field required.")))
}

/// Returns a text without a type, as vLLM does.
fn success(text: String) -> Response<Bytes> {
    Response::new(text.into())
}
