//! `POST /v1/load_lora_adapter` and `POST /v1/unload_lora_adapter`.

use std::sync::Arc;

use axum::{Router, extract::State, routing::post};
use serde::Deserialize;

use crate::{Adapter, Model, Refusal, body::Body};

/// The fields of both requests.
#[derive(Debug, Default, Deserialize)]
#[serde(default)]
struct Fields {
    lora_name: String,
    lora_path: String,
    load_inplace: bool,
}

pub(crate) fn routes() -> Router<Arc<dyn Model>> {
    Router::new().route("/v1/load_lora_adapter", post(load)).route("/v1/unload_lora_adapter", post(unload))
}

async fn load(State(model): State<Arc<dyn Model>>, Body(fields): Body<Fields>) -> Result<String, Refusal> {
    let Fields { lora_name: name, lora_path: path, load_inplace } = fields;
    if name.is_empty() || path.is_empty() {
        return Err(Refusal::invalid_input("Both 'lora_name' and 'lora_path' must be provided."));
    }
    if !load_inplace && model.adapters().iter().any(|known| known.name == name) {
        return Err(Refusal::invalid_input(format!(
            "The lora adapter '{name}' has already been loaded. If you want to load the adapter in place, set \
             'load_inplace' to True."
        )));
    }
    model.load_adapter(Adapter { name: name.clone(), path, base: None }, load_inplace).await?;
    Ok(format!("Success: LoRA adapter '{name}' added successfully."))
}

async fn unload(State(model): State<Arc<dyn Model>>, Body(fields): Body<Fields>) -> Result<String, Refusal> {
    let name = fields.lora_name;
    if name.is_empty() {
        return Err(Refusal::invalid_input("'lora_name' needs to be provided to unload a LoRA adapter."));
    }
    if !model.unload_adapter(&name) {
        return Err(Refusal::not_found(format!("The lora adapter '{name}' cannot be found.")));
    }
    Ok(format!("Success: LoRA adapter '{name}' removed successfully."))
}
