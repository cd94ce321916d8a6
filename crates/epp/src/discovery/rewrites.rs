//! Model rewrites from the pool's `InferenceModelRewrite` objects.

use std::sync::Arc;

use kube::{Client, ResourceExt, api::DynamicObject};
use serde::Deserialize;
use tokio_util::sync::CancellationToken;

use super::both_groups::{self, Scope};
use crate::{
    core::Core,
    rewrites::{ModelRewrite, Rewrites, Rule, Target},
};

/// Follows the rewrites of a pool until shutdown.
pub(crate) async fn follow(client: Client, scope: Scope, core: Arc<Core>, shutdown: CancellationToken) {
    let changed = |rewrites: std::collections::BTreeMap<String, ModelRewrite>| {
        for rule in rewrites.values().flat_map(|rewrite| &rewrite.rules) {
            let targets = rule.targets.iter().map(|target| &target.model);
            rule.models.iter().chain(targets).for_each(|model| core.metrics.serve(model));
        }
        core.rewrites.store(Arc::new(Rewrites::new(rewrites.into_values())));
    };
    both_groups::follow(client, scope, "InferenceModelRewrite", rewrite, changed, shutdown).await;
}

#[derive(Debug, Deserialize)]
struct Spec {
    #[serde(default)]
    rules: Vec<RuleSpec>,
}

#[derive(Debug, Deserialize)]
struct RuleSpec {
    #[serde(default)]
    matches: Vec<Match>,
    #[serde(default)]
    targets: Vec<TargetSpec>,
}

#[derive(Debug, Deserialize)]
struct Match {
    model: Option<ModelMatch>,
}

#[derive(Debug, Deserialize)]
struct ModelMatch {
    value: String,
}

#[derive(Debug, Deserialize)]
#[serde(rename_all = "camelCase")]
struct TargetSpec {
    weight: Option<u32>,
    model_rewrite: String,
}

fn rewrite(object: &DynamicObject) -> Option<ModelRewrite> {
    let name = object.name_any();
    let spec = match object.data.get("spec").map(Spec::deserialize)? {
        Ok(spec) => spec,
        Err(error) => {
            tracing::warn!(name, %error, "Cannot read an InferenceModelRewrite, so it has no effect.");
            return None;
        }
    };
    let rules = spec.rules.into_iter().filter(|rule| !rule.targets.is_empty()).map(|rule| Rule {
        // A match without a model matches every model, like a rule without matches.
        models: if rule.matches.iter().any(|matched| matched.model.is_none()) {
            Vec::new()
        } else {
            rule.matches.into_iter().filter_map(|matched| Some(matched.model?.value)).collect()
        },
        targets: rule
            .targets
            .into_iter()
            .map(|target| Target { model: target.model_rewrite, weight: target.weight })
            .collect(),
    });
    Some(ModelRewrite {
        created: object.creation_timestamp().map(|time| time.0),
        rules: rules.collect(),
        name,
    })
}
