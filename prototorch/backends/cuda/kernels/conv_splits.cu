// The sum of the chunks of a weight gradient, in their order.
typedef typename arithmetic<X>::type A;
KERNEL sum_splits(index elements, index splits, const A* partial_sums, Y* dw) {
    EACH(i, elements) {
        A total = 0;
        for (index s = 0; s < splits; s++) total += partial_sums[s * elements + i];
        put(dw[i], total);
    }
}
