//! Rules for parallelism.

use super::Report;
use crate::v1alpha2::WorkloadSpec;

/// Checks the parallelism of the workload at `path`.
pub(super) fn check(path: &str, workload: &WorkloadSpec, report: &mut Report) {
    const WORKER: &str = "when worker is specified, parallelism must be configured for either data parallelism or \
                          pipeline parallelism";
    let Some(parallelism) = &workload.parallelism else {
        if let Some(worker) = &workload.worker {
            report.invalid(format!("{path}.worker"), worker, WORKER);
        }
        return;
    };
    if let Some(worker) = &workload.worker
        && !parallelism.is_data_parallel()
        && !parallelism.is_pipeline_parallel()
    {
        report.invalid(format!("{path}.worker"), worker, WORKER);
    }
    let field = format!("{path}.parallelism");
    if parallelism.is_pipeline_parallel() && parallelism.is_data_parallel() {
        report.invalid(
            &field,
            parallelism,
            "cannot set both pipeline parallelism and data parallelism (data or dataLocal) simultaneously",
        );
    }
    // KServe's messages show the missing value, as `null`.
    match (parallelism.data, parallelism.data_local) {
        (Some(_), None) => report.invalid(
            format!("{field}.dataLocal"),
            &None::<i32>,
            "dataLocal must be set when data is set",
        ),
        (None, Some(_)) => {
            report.invalid(format!("{field}.data"), &None::<i32>, "data must be set when dataLocal is set");
        }
        _ => {}
    }
    let sizes = [
        ("pipeline", parallelism.pipeline),
        ("data", parallelism.data),
        ("dataLocal", parallelism.data_local),
    ];
    for (name, size) in sizes {
        if let Some(size) = size.filter(|size| *size <= 0) {
            report.invalid(
                format!("{field}.{name}"),
                &size,
                &format!("{name} parallelism must be greater than 0"),
            );
        }
    }
}
