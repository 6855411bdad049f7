//! Sandboxes of Daytona, over a server of this machine: the contract, and the criteria of its seed.

mod conformance;
