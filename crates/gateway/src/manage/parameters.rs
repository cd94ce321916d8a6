//! What a Gateway's `infrastructure.parametersRef` chooses: a ConfigMap.

use std::{collections::BTreeMap, sync::Arc, time::Duration};

use clap::ValueEnum;
use k8s_openapi::api::core::v1::ConfigMap;
use longboat_api::foreign::gateway::Gateway;

use crate::{Picking, RoutingInputs, observed::has_key, problem::Problem, references};

/// The keys of the ConfigMap.
const KEYS: &str = "serviceType, replicas, drainTimeout, picking";

/// The most replicas, so that a mistyped number does not fill a cluster.
const MAX_REPLICAS: i32 = 100;

/// The parameters of a Gateway.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Parameters {
    /// Type of the Service.
    pub(super) service_type: String,
    /// Number of pods.
    pub(super) replicas: i32,
    /// How long running requests may continue when a pod ends.
    pub(super) drain_timeout: Duration,
    /// Where the pickers of its pools run.
    pub(super) picking: Picking,
}

impl Default for Parameters {
    fn default() -> Self {
        Self {
            service_type: "LoadBalancer".into(),
            replicas: 2,
            drain_timeout: Duration::from_mins(5),
            picking: Picking::Pods,
        }
    }
}

/// Returns why our controller would not accept the parameters of a Gateway. Of the ConfigMaps, it needs the one that the Gateway names.
pub fn parameters_problem(gateway: &Gateway, config_maps: &[Arc<ConfigMap>]) -> Option<Problem> {
    let observed = RoutingInputs { config_maps: config_maps.to_vec(), ..RoutingInputs::default() };
    Parameters::of(&observed, gateway).err()
}

impl Parameters {
    /// Reads the parameters of a Gateway.
    pub(super) fn of(observed: &RoutingInputs, gateway: &Gateway) -> Result<Self, Problem> {
        let reference = gateway.spec.infrastructure.as_ref();
        let Some(reference) = reference.and_then(|all| all.parameters_ref.as_ref()) else {
            return Ok(Self::default());
        };
        let invalid = |message| Problem { reason: "InvalidParameters", message };
        let Some(key) = references::parameters(gateway) else {
            let kind = &reference.kind;
            return Err(invalid(format!("parameters of kind {kind} are not supported: use a ConfigMap")));
        };
        let map = observed.config_maps.iter().find(|map| has_key(&map.metadata, &key));
        let map = map.ok_or_else(|| invalid(format!("there is no ConfigMap {key}")))?;
        Self::read(map.data.as_ref().unwrap_or(&BTreeMap::new()))
            .map_err(|message| invalid(format!("ConfigMap {key}: {message}")))
    }

    fn read(data: &BTreeMap<String, String>) -> Result<Self, String> {
        let mut all = Self::default();
        for (key, value) in data {
            match key.as_str() {
                "serviceType" if ["LoadBalancer", "NodePort", "ClusterIP"].contains(&value.as_str()) => {
                    all.service_type.clone_from(value);
                }
                "serviceType" => {
                    return Err(format!(
                        "serviceType is `{value}`: expected LoadBalancer, NodePort or ClusterIP"
                    ));
                }
                "replicas" => {
                    let number = value.parse().ok().filter(|number| (0..=MAX_REPLICAS).contains(number));
                    all.replicas = number.ok_or_else(|| {
                        format!("replicas is `{value}`: expected a number from 0 to {MAX_REPLICAS}")
                    })?;
                }
                "drainTimeout" => {
                    all.drain_timeout = longboat_quantity::duration::parse(value).map_err(|_| {
                        format!("drainTimeout is `{value}`: expected a duration such as 90s or 5m")
                    })?;
                }
                "picking" => {
                    all.picking = Picking::from_str(value, false)
                        .map_err(|_| format!("picking is `{value}`: expected pods or gateway"))?;
                }
                other => return Err(format!("key `{other}` is not known: expected {KEYS}")),
            }
        }
        Ok(all)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn parameters_are_read_and_mistakes_are_named() {
        let read = |entries: &[(&str, &str)]| {
            let entries = entries.iter().map(|(key, value)| ((*key).to_owned(), (*value).to_owned()));
            Parameters::read(&entries.collect())
        };
        assert_eq!(read(&[]), Ok(Parameters::default()));
        let expected = Parameters {
            service_type: "ClusterIP".into(),
            replicas: 3,
            drain_timeout: Duration::from_secs(90),
            picking: Picking::Gateway,
        };
        let parameters = [
            ("serviceType", "ClusterIP"),
            ("replicas", "3"),
            ("drainTimeout", "90s"),
            ("picking", "gateway"),
        ];
        assert_eq!(read(&parameters), Ok(expected));
        for (key, value) in [
            ("serviceType", "ExternalName"),
            ("replicas", "-1"),
            ("drainTimeout", "long"),
            ("picking", "Gateway"),
            ("other", ""),
        ] {
            assert!(read(&[(key, value)]).unwrap_err().contains(key), "{key}");
        }
    }
}
