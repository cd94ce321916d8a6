//! The effect of each field that users can write. No field is silently ignored.
//!
//! The tables below have one row for each own leaf of the spec. A row says what the field does, or who refuses it, or
//! when nothing comes of it; in the last case a function gives the warning that `kubectl apply` prints. A test walks
//! the CRD and fails on a leaf without a row.
//!
//! Adding a field is adding its row. A subtree of another API (pods, routes, pools, claims) is one leaf.

mod model;
mod older;
mod placement;
mod router;
mod row;
mod scaling;
mod spelling;
#[cfg(test)]
mod tests;
mod workload;

pub use older::v1alpha1_warnings;
pub use row::{Effect, Row};
pub use workload::devices;

use row::Site;

use crate::engine::Engine;
use crate::newer;
use crate::v1alpha2::{
    KedaSettings, LLMInferenceService, LLMInferenceServiceConfig, LLMInferenceServiceSpec, WorkloadSpec,
};

/// Returns warnings about a service: fields that do nothing, alone or beside the others.
pub fn warnings(service: &LLMInferenceService) -> Vec<String> {
    let mut found = all(service, service.spec.base_refs.is_empty());
    found.extend(spelling::warnings(&service.metadata, &service.spec));
    found
}

/// Returns warnings about a config. A config is only a part of a spec, so missing fields cause no warning.
pub fn config_warnings(config: &LLMInferenceServiceConfig) -> Vec<String> {
    let mut found =
        all(&LLMInferenceService { spec: config.spec.clone(), ..LLMInferenceService::default() }, false);
    found.extend(placement::config_warnings(config));
    found.extend(spelling::warnings(&config.metadata, &config.spec));
    found
}

/// Topologies that cannot work. For a composed spec, of which nothing is missing.
pub fn topology_warnings(spec: &LLMInferenceServiceSpec) -> Vec<String> {
    let halves = spec.workloads();
    let sites =
        halves.map(|(base, workload)| Site { name: None, spec, base, workload, keda: None, whole: true });
    sites.flat_map(|site| workload::TOPOLOGY.into_iter().filter_map(move |warn| warn(&site))).collect()
}

/// Every row with the full path of its field.
pub fn rows() -> Vec<(String, &'static Row)> {
    let mut rows = Vec::new();
    let mut add = |place: &str, table: &'static [Row]| {
        rows.extend(table.iter().map(|row| (format!("{place}.{}", row.path), row)));
    };
    add("spec", model::ROWS);
    for base in WORKLOADS {
        add(base, workload::ROWS);
        add(base, scaling::ROWS);
        for place in SCALED_OBJECTS {
            add(&format!("{base}.{place}"), scaling::KEDA_ROWS);
        }
    }
    add("spec", router::ROWS);
    rows
}

const WORKLOADS: [&str; 2] = ["spec", "spec.prefill"];
const SCALED_OBJECTS: [&str; 2] = ["scaling.wva.keda", "scaling.keda"];

fn all(service: &LLMInferenceService, whole: bool) -> Vec<String> {
    let spec = &service.spec;
    let mut found: Vec<String> = Vec::new();
    // What the engine refuses must go, so what it would do is of no interest.
    let engine = spec.runtime().and_then(Engine::of_shipped_runtime);
    let refused: Vec<&str> =
        engine.iter().flat_map(|engine| engine.refused(spec)).map(|refused| refused.field).collect();
    // What is below a refused field goes with it.
    let mut ask = |tables: &[&[Row]], site: &Site<'_>| {
        let must_go = |row: &Row| {
            let field = format!("{}.{}", site.base, row.path);
            refused.iter().any(|refused| field.starts_with(refused))
        };
        let rows = tables.iter().copied().flatten().filter(|row| refused.is_empty() || !must_go(row));
        found.extend(rows.filter_map(|row| row.warn?(site)));
    };
    let name = service.metadata.name.as_deref();
    let site = |base, workload, keda| Site { name, spec, base, workload, keda, whole };
    ask(&[model::ROWS], &site("spec", &spec.workload, None));
    for (base, workload) in spec.workloads() {
        ask(&[workload::ROWS, scaling::ROWS], &site(base, workload, None));
        for place in SCALED_OBJECTS {
            if let Some(settings) = scaled_object(workload, place) {
                let keda = Some((place, settings));
                ask(&[scaling::KEDA_ROWS], &site(base, workload, keda));
            }
        }
    }
    ask(&[router::ROWS], &site("spec", &spec.workload, None));
    found.extend(placement::warnings(service));
    found.extend(
        service.metadata.annotations.iter().flat_map(|all| newer::warnings("metadata.annotations", all)),
    );
    found.extend(newer::warnings("spec.annotations", &spec.workload.annotations));
    found
}

/// What a workload says about a ScaledObject at one of [`SCALED_OBJECTS`].
fn scaled_object<'a>(workload: &'a WorkloadSpec, place: &str) -> Option<&'a KedaSettings> {
    let scaling = workload.scaling.as_ref()?;
    match place {
        "scaling.keda" => scaling.keda.as_ref().map(|keda| &keda.settings),
        _ => scaling.wva.as_ref()?.keda.as_ref(),
    }
}
