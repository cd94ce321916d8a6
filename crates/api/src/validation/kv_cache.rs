//! Rules for KV cache offloading.

use longboat_quantity::Quantity;

use super::Report;
use crate::v1alpha2::{PvcTier, WorkloadSpec};

const LESS_THAN_A_BYTE: &str =
    "is less than one byte, because m stands for thousandths: expected an amount such as 100Mi";

/// Checks the tiers of the workload at `path`.
pub(super) fn check(path: &str, workload: &WorkloadSpec, report: &mut Report) {
    let Some(offloading) = &workload.kv_cache_offloading else { return };
    let field = format!("{path}.kvCacheOffloading");
    let cpu = Quantity::parse(&offloading.cpu.0.0);
    if cpu.as_ref().is_some_and(|cpu| cpu.nano() < 0) {
        report.invalid(format!("{field}.cpu"), &offloading.cpu, "cpu must not be negative");
    }
    if cpu.as_ref().is_some_and(|cpu| cpu.nano() / 1_000_000_000 > i128::from(i64::MAX)) {
        report.invalid(format!("{field}.cpu"), &offloading.cpu, "cpu must be less than 8Ei");
    }
    let is_fraction =
        |amount: Option<&Quantity>| amount.is_some_and(|amount| (1..1_000_000_000).contains(&amount.nano()));
    if is_fraction(cpu.as_ref()) {
        report.invalid(format!("{field}.cpu"), &offloading.cpu, LESS_THAN_A_BYTE);
    }
    if offloading.secondary.is_empty() {
        return;
    }
    if cpu.is_none_or(|cpu| cpu.nano() == 0) {
        report.required(format!("{field}.cpu"), "cpu must be set when secondary tiers are configured");
    }
    for (i, tier) in offloading.secondary.iter().enumerate() {
        let field = format!("{field}.secondary[{i}].fileSystem");
        let Some(files) = &tier.file_system else {
            report.required(field, "only fileSystem tiers are supported");
            continue;
        };
        if let Some(scratch) = &files.empty_dir
            && is_fraction(Quantity::parse(&scratch.size.0.0).as_ref())
        {
            report.invalid(format!("{field}.emptyDir.size"), &scratch.size, LESS_THAN_A_BYTE);
        }
        match (&files.empty_dir, &files.pvc) {
            (None, None) => report.required(&field, "exactly one of emptyDir or pvc must be set"),
            (Some(_), Some(_)) => report.invalid(&field, files, "exactly one of emptyDir or pvc must be set"),
            (Some(_), None) => {}
            (None, Some(pvc)) => check_pvc(&format!("{field}.pvc"), pvc, report),
        }
    }
}

fn check_pvc(field: &str, pvc: &PvcTier, report: &mut Report) {
    match (&pvc.spec, &pvc.ref_) {
        (None, None) => report.required(field, "exactly one of spec or ref must be set"),
        (Some(_), Some(_)) => report.invalid(field, pvc, "exactly one of spec or ref must be set"),
        (None, Some(claim)) if claim.name.is_empty() => {
            report.required(format!("{field}.ref.name"), "name is required");
        }
        _ => {}
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn a_negative_size_of_the_main_memory_is_refused_and_zero_is_not() {
        for (cpu, causes) in
            [("1Gi", 0), ("0", 0), ("-1", 1), ("-1Gi", 1), ("7Ei", 0), ("8Ei", 1), ("100m", 1), ("1000m", 0)]
        {
            let workload = serde_json::from_value(json!({"kvCacheOffloading": {"cpu": cpu}})).unwrap();
            let mut report = Report::default();
            check("spec.prefill", &workload, &mut report);
            assert_eq!(report.errors.len(), causes, "{cpu}");
            let fields = report.errors.iter().map(|error| &*error.field);
            assert!(fields.into_iter().all(|field| field == "spec.prefill.kvCacheOffloading.cpu"));
        }
    }
}
