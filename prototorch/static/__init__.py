"""The static graph as an API (TensorFlow 1's way): a computation is written down once, and run many times with arrays.

x, y = pt.Input((4,)), pt.Input((4,))
loss = (x * y).sum()
graph = pt.Graph([x, y], [loss, *pt.gradients(loss, [x, y])])
value, grad_x, grad_y = graph(x_array, y_array)
"""
