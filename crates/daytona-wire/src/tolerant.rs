//! Reading what others wrote: null counts as missing.

use std::collections::BTreeMap;

use serde::de::{Deserialize, Deserializer};

/// Named values, in a fixed order so that equal maps are written alike.
pub type StringMap = BTreeMap<String, String>;

pub(crate) fn null_is_default<'de, D, T>(deserializer: D) -> Result<T, D::Error>
where
    D: Deserializer<'de>,
    T: Default + Deserialize<'de>,
{
    Ok(Option::<T>::deserialize(deserializer)?.unwrap_or_default())
}
