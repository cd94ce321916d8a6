//! Composes the services of a scene, and plans their children.

use std::collections::BTreeMap;

use k8s_openapi::api::core::v1::ConfigMap;
use longboat_api::{
    annotations,
    v1alpha2::{LLMInferenceService, LLMInferenceServiceSpec},
};
use longboat_compose::{
    ComposeError, ConfigMapSource, Effective, Inputs, Warning, outcome::Outcome, texts_of,
};
use longboat_key::{Name, Namespace};
use longboat_plan::{Objects, Plan, PlanError, Snapshot, add_peers};

use super::{PlanningError, Scene};
use crate::assume;

/// The controller's plan for a service.
#[derive(Debug)]
pub struct PlannedService {
    /// The composed spec with its history. `None` for a stopped service that cannot be composed.
    pub effective: Option<Effective>,
    /// The children to write and those to delete.
    pub plan: Plan,
    /// The snapshot for which they were planned.
    pub snapshot: Snapshot,
    /// The assumptions, one sentence each.
    pub assumed: Vec<String>,
}

struct Lookup<'a>(&'a Objects<ConfigMap>);

impl ConfigMapSource for Lookup<'_> {
    fn get(&self, namespace: Namespace<&str>, name: Name<&str>) -> Option<&BTreeMap<String, String>> {
        self.0.get(namespace, name).map(texts_of)
    }
}

// === impl Scene ===

impl Scene {
    /// Composes a service.
    ///
    /// # Errors
    /// See [`ComposeError`].
    pub fn compose(&self, service: &LLMInferenceService) -> Result<Effective, ComposeError> {
        self.composer.compose(&self.inputs(service, &Lookup(&self.snapshot.config_maps)))
    }

    /// Returns warnings about the layers of a composed service, in addition to those of composition itself.
    pub fn layer_warnings(&self, service: &LLMInferenceService, effective: &Effective) -> Vec<Warning> {
        self.composer.layer_warnings(&self.inputs(service, &Lookup(&self.snapshot.config_maps)), effective)
    }

    fn inputs<'a>(&'a self, service: &'a LLMInferenceService, config_maps: &'a Lookup<'a>) -> Inputs<'a> {
        Inputs {
            service,
            configs: &self.configs,
            config_maps,
            platform: &self.snapshot.platform,
            system_namespace: self.snapshot.system_namespace.as_deref(),
            preset_names: &self.preset_names,
        }
    }

    /// Returns what the controller would do for a service: the same composition and the same plan.
    ///
    /// # Errors
    /// If the service cannot be composed, or an API server would refuse the composed spec.
    pub fn plan(&self, service: &LLMInferenceService) -> Result<PlannedService, PlanningError> {
        // A stopped service is removed even if it cannot be composed.
        let stopped = annotations::is_stopped(service.metadata.annotations.as_ref());
        match self.compose(service) {
            Ok(effective) => self.plan_composed(service, Some(effective)),
            Err(_) if stopped => self.plan_composed(service, None),
            Err(error) => Err(error.into()),
        }
    }

    /// Like [`Self::plan`], for a service that is composed already, or that cannot be.
    pub(crate) fn plan_composed(
        &self,
        service: &LLMInferenceService,
        effective: Option<Effective>,
    ) -> Result<PlannedService, PlanningError> {
        let stopped = annotations::is_stopped(service.metadata.annotations.as_ref());
        let effective = match effective {
            Some(effective) => {
                let rejection = self.merged.rejection(&effective.spec);
                let outcome = Outcome::of_merged(&effective.applied, rejection.as_ref(), stopped);
                match (outcome.stop.is_some(), outcome.use_own_spec) {
                    (true, _) => return Err(PlanningError::Rejected(outcome.message)),
                    (false, true) => None,
                    (false, false) => Some(effective),
                }
            }
            None => None,
        };
        let spec = effective.as_ref().map_or(&service.spec, |effective| &effective.spec);
        let (plan, snapshot, assumed) = self.plan_spec(service, spec)?;
        Ok(PlannedService { effective, plan, snapshot, assumed })
    }

    /// Plans a composed spec.
    pub(crate) fn plan_spec(
        &self,
        service: &LLMInferenceService,
        spec: &LLMInferenceServiceSpec,
    ) -> Result<(Plan, Snapshot, Vec<String>), PlanError> {
        // A copy of its own, because planning records in it what it has asked for, and assumptions add to it.
        let mut snapshot = self.snapshot.clone();
        // Members of a group share their traffic. Services outside of a group do not depend on each other.
        if spec.route().is_some_and(|route| route.group.is_some()) {
            let all = self.subjects.iter().map(|subject| subject.service.as_ref());
            let near = all.filter(|other| other.metadata.namespace == service.metadata.namespace);
            add_peers(&mut snapshot.peers, near);
        }
        if !self.assuming {
            let plan = longboat_plan::children(service, spec, &snapshot)?;
            return Ok((plan, snapshot, Vec::new()));
        }
        let namespace = Namespace::of(&service.metadata);
        let default_is_known =
            snapshot.service_accounts.get(namespace, Name(assume::secrets::DEFAULT_ACCOUNT)).is_some();
        let mut assumed = assume::what_is_missing(service, spec, &mut snapshot);
        let mut plan = longboat_plan::children(service, spec, &snapshot)?;
        // Planning stops at the first Secret that is missing, so each turn finds at least one more.
        loop {
            let secrets = assume::secrets::missing(service, &plan, &mut snapshot);
            if secrets.is_empty() {
                break;
            }
            assumed.extend(secrets);
            plan = longboat_plan::children(service, spec, &snapshot)?;
        }
        if !default_is_known {
            assumed.extend(assume::secrets::of_default_account(service, &plan, &snapshot));
        }
        Ok((plan, snapshot, assumed))
    }
}
