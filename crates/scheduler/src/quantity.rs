//! Kubernetes quantities of bytes: `4Mi`, `100M`, `5MiB`.

use longboat_quantity::Quantity;

/// Reads a number of bytes. A trailing `B` is allowed.
///
/// # Errors
/// A sentence for the user if the text is not a quantity.
pub fn parse(text: &str) -> Result<usize, String> {
    let invalid = || format!("\"{text}\" is not a quantity of bytes such as 4Mi");
    let bare = text.trim();
    let bare = bare.strip_suffix('B').unwrap_or(bare);
    let amount = Quantity::parse(bare).ok_or_else(invalid)?;
    usize::try_from(amount.whole()).map_err(|_| invalid())
}
