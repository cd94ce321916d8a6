//! Schedules of CronJobs. kube-apiserver reads them with <https://github.com/robfig/cron>, whose words the errors have.

use jiff::tz::TimeZone;
use longboat_quantity::{cron, duration};

/// Schedules that have a name.
const NAMED: [&str; 7] = ["@annually", "@daily", "@hourly", "@midnight", "@monthly", "@weekly", "@yearly"];

/// Checks a schedule, which is not empty.
pub(super) fn check(text: &str) -> Result<(), String> {
    let zoned = text.strip_prefix("TZ=").or_else(|| text.strip_prefix("CRON_TZ="));
    let text = match zoned.and_then(|rest| rest.split_once(' ')) {
        Some((zone, _)) if TimeZone::get(zone).is_err() => {
            return Err(format!("provided bad location {zone}: unknown time zone {zone}"));
        }
        Some((_, rest)) => rest.trim(),
        None => text,
    };
    if let Some(interval) = text.strip_prefix("@every ") {
        let read = duration::parse(interval.trim_start_matches('-'));
        let why = |_| format!("failed to parse duration {text}: time: invalid duration {interval:?}");
        return read.map(drop).map_err(why);
    }
    if text.starts_with('@') {
        let why = || format!("unrecognized descriptor: {text}");
        return NAMED.contains(&text).then_some(()).ok_or_else(why);
    }
    cron::check(text)
}

#[cfg(test)]
mod tests {
    use super::check;

    #[test]
    fn a_schedule_has_five_fields_or_a_name() {
        for fine in ["@daily", "@every 1h30m", "TZ=UTC 0 8 * * *"] {
            assert_eq!(check(fine), Ok(()), "{fine}");
        }
        for (wrong, why) in [
            ("@often", "unrecognized descriptor: @often"),
            ("60 * * * *", "end of range (60) above maximum (59): 60"),
            ("TZ=Nowhere * * * * *", "provided bad location Nowhere: unknown time zone Nowhere"),
        ] {
            assert_eq!(check(wrong), Err(why.to_owned()), "{wrong}");
        }
    }
}
