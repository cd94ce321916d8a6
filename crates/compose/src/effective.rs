//! The result of composition.

use std::{collections::BTreeMap, sync::Arc};

use longboat_api::v1alpha2::{AppliedConfig, LLMInferenceServiceSpec};
use longboat_key::Key;
use serde_json::Value;

use crate::{
    layer::Layer,
    provenance::Provenance,
    template_input::{self, TemplateInput},
    warning::Warning,
};

/// The composed spec of a service, with everything that contributed to it.
#[derive(Debug, Clone)]
pub struct Effective {
    /// The merged and rendered spec. It is boxed, because moving it would cost as much as merging.
    pub spec: Box<LLMInferenceServiceSpec>,
    /// The configs that were merged, in that order.
    pub applied: Vec<AppliedConfig>,
    /// `status.annotations` with all preset names pinned.
    pub status_annotations: BTreeMap<String, String>,
    /// The ConfigMap that held the scheduler's config, if one did.
    pub scheduler_config_map: Option<Key>,
    /// Warnings for the user. Each becomes an event too.
    pub warnings: Vec<Warning>,
    pub(crate) layers: Vec<Arc<Layer>>,
    /// The service's own spec.
    pub(crate) own: Arc<Value>,
    /// The data of templates, which contains the merged spec.
    pub(crate) data: Arc<Value>,
    /// The merged spec with rendered templates, before the rewrites of [`crate::rewrite`] and [`crate::dra`].
    pub(crate) rendered: Arc<Value>,
}

impl Effective {
    /// Computes which layer set each leaf of the spec, and what it replaced. Composition does not compute this, because it is
    /// expensive.
    pub fn provenance(&self) -> Provenance {
        Provenance::compute(&self.layers, self.own(), &self.rendered, &self.spec)
    }

    /// The configs that were merged, lowest first.
    pub fn layers(&self) -> &[Arc<Layer>] {
        &self.layers
    }

    /// The service's own spec as it was merged.
    pub fn own(&self) -> &Value {
        &self.own
    }

    /// The fields that a template in a layer read.
    pub fn template_inputs(&self, text: &str) -> Vec<TemplateInput> {
        template_input::of(text, &self.data)
    }
}
