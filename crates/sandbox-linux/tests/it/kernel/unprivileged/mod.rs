//! What a box promises whoever made it: root or an ordinary user.

mod accounts;
mod basics;
mod boxes_apart;
mod calls;
mod endings;
mod files;
mod hosts;
mod layers;
mod life;
mod limits;
mod network;
mod parking;
mod ports;
mod prepared;
mod processes;
mod profiles;
mod restart;
mod shared_shell;
mod starting;
mod streams;
mod terminal;
mod toolbox;
