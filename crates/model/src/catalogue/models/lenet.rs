//! LeNet-5.

use crate::catalogue::image::{Network, Window};
use crate::catalogue::layer::{Input, Model};

/// Returns LeNet-5 as it is trained today: convolutions read all channels, pools have no parameters, the output layer is linear.
pub(super) fn lenet5() -> Model {
    let input = Input::Image { channels: 1, height: 28, width: 28 };
    let mut network = Network::new(input);
    network
        .biased("conv1", 6, Window::square(5, 1, 2))
        .pool("pool1", Window::square(2, 2, 0))
        .biased("conv2", 16, Window::square(5, 1, 0))
        .pool("pool2", Window::square(2, 2, 0))
        .linear("fc1", 120)
        .linear("fc2", 84)
        .linear("fc3", 10);
    Model {
        name: "lenet5",
        input,
        layers: network.layers(),
        source: "Y. LeCun et al., Gradient-Based Learning Applied to Document Recognition, Proc. IEEE 86(11), 1998",
    }
}
