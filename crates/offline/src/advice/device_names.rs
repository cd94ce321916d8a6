//! Names of devices that no device plugin offers, but that are almost those of one.

use std::collections::BTreeSet;

use longboat_api::v1alpha2::LLMInferenceServiceSpec;
use longboat_key::nearest;

use crate::{finding::Advice, pods::containers};

/// The resources of the device plugins that serve models.
const KNOWN: [&str; 11] = [
    "amd.com/gpu",
    "aws.amazon.com/neuron",
    "aws.amazon.com/neuroncore",
    "aws.amazon.com/neurondevice",
    "google.com/tpu",
    "gpu.intel.com/i915",
    "gpu.intel.com/xe",
    "habana.ai/gaudi",
    "intel.com/gpu",
    "nvidia.com/gpu",
    "nvidia.com/gpu.shared",
];

pub(super) fn check(spec: &LLMInferenceServiceSpec) -> Vec<Advice> {
    let mut all = Vec::new();
    for (path, container) in containers(spec) {
        let Some(resources) = &container.resources else { continue };
        let limits: BTreeSet<&String> = resources.limits.iter().flat_map(|all| all.keys()).collect();
        let requests = resources.requests.iter().flat_map(|all| all.keys());
        for name in limits.iter().copied().chain(requests).collect::<BTreeSet<_>>() {
            let Some(meant) = misspelt(name) else { continue };
            let kind = if limits.contains(name) { "limits" } else { "requests" };
            all.push(Advice::warning(
                format!("{path}.resources.{kind}[{name}]"),
                "UnknownDevice",
                format!("asks for {name}, which no device plugin offers: no node takes the pod"),
                format!("did you mean `{meant}`?"),
            ));
        }
    }
    all
}

fn misspelt(name: &str) -> Option<&'static str> {
    if KNOWN.contains(&name) || !name.contains('/') {
        return None;
    }
    // A domain that is cut off is too far from the whole one.
    let (vendor, device) = name.split_once('/')?;
    let is_cut = |known: &&str| {
        known
            .strip_prefix(vendor)
            .is_some_and(|rest| rest.starts_with('.') && rest.ends_with(&format!("/{device}")))
    };
    nearest(KNOWN, name).or_else(|| KNOWN.into_iter().find(|known| is_cut(known)))
}

#[cfg(test)]
mod tests {
    use super::misspelt;
    use crate::advice::tests::{finding_lines, service};

    #[test]
    fn a_device_that_nobody_offers_is_told_its_name() {
        for (name, meant) in [
            ("nvidia.com/gpus", Some("nvidia.com/gpu")),
            ("nvidia/gpu", Some("nvidia.com/gpu")),
            ("nvidia/gpus", None),
            ("nvdia.com/gpu", Some("nvidia.com/gpu")),
            ("amd.com/gpus", Some("amd.com/gpu")),
            ("nvidia.com/mig-1g.5gb", None),
            ("rdma/ib", None),
            ("memory", None),
        ] {
            assert_eq!(misspelt(name), meant, "{name}");
        }
        let pod = "  model: {uri: 'hf://a/b'}\n  template:\n    containers:\n    - name: main\n      resources: {limits: {nvidia.com/gpus: 1}}\n";
        assert_eq!(
            finding_lines(&service("a", pod)),
            [
                "9:28 warning spec.template.containers[0].resources.limits[nvidia.com/gpus]: asks for nvidia.com/gpus, which no device \
                 plugin offers: no node takes the pod (did you mean `nvidia.com/gpu`?)"
            ]
        );
    }
}
