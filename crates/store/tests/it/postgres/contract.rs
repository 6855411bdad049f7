//! The contract of all stores.

use super::start;
use crate::contract::contract;

contract!(start().await);
